//! `monitor replay FILE --page`: a recording in a browser.

use super::browser::Browser;
use super::page::{LIVE, captions};
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

/// The page of a recording of 100 seconds, in which the CPU time grows by a second per second.
struct ReplayPage {
    program: Guarded,
    address: String,
    token: String,
    folder: Folder,
}

impl ReplayPage {
    fn new(speed: &str) -> Self {
        let folder = Folder::new();
        let file = folder.join("r");
        let mut record = monitor();
        record.arg("record").arg(&file).args(["--local", "--backend", "test", "--every", "5ms"]);
        assert!(record.args(["--count", "100"]).output().unwrap().status.success());
        let mut command = monitor();
        command.arg("replay").arg(&file).args(["--page", "--speed", speed]);
        command.env("XDG_RUNTIME_DIR", folder.path()).env("TMPDIR", folder.path());
        let mut program = Guarded::run(command.stderr(Stdio::piped()));
        let mut printed = BufReader::new(program.0.stderr.take().unwrap()).lines();
        let line = printed.find_map(|line| line.ok().filter(|it| it.contains("#token="))).unwrap();
        let at = line.find("http://").unwrap();
        let address = line[at..].split_whitespace().next().unwrap();
        let (address, token) = address.split_once("/#token=").unwrap();
        let (address, token) = (address.replace("http://", ""), token.to_owned());
        Self { program, address, token, folder }
    }

    fn seek(&self, query: &str, token: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /seek?{query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n",
            self.address
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_whitespace().nth(1).unwrap().to_owned()
    }
}

#[test]
fn a_killed_replay_leaves_no_files() {
    let mut page = ReplayPage::new("1");
    assert_eq!(page.seek("by=1", &page.token), "200");
    page.program.0.kill().unwrap();
    let _ = page.program.0.wait().unwrap();
    let left = std::fs::read_dir(page.folder.path()).unwrap();
    // Only the recording itself.
    assert_eq!(left.map(|it| it.unwrap().file_name()).collect::<Vec<_>>(), ["r"]);
}

#[test]
fn the_page_of_a_recording_can_seek() {
    let page = ReplayPage::new("1");
    assert!(page.program.pid().0 > 0);
    assert_eq!(page.seek("by=1", "0123456789abcdef0123456789abcdef"), "401");
    assert_eq!(page.seek("by=x", &page.token), "400");
    let address = format!("http://{}/#token={}", page.address, page.token);
    let Some(mut browser) = Browser::open("a_recording_is_a_page", &address) else { return };
    browser.until(LIVE);
    browser.until("document.getElementById('replay').hidden === false");
    browser.until(
        "document.querySelector('#scroll tbody tr[data-key]')?.cells[4].textContent.includes('%')",
    );
    let at = "Number(document.querySelector('#replay input').value)";
    let first = "Number(document.querySelector('#replay input').min)";
    let since = format!("Math.round(({at} - {first}) / 1000)");
    browser.until(&format!("{since} >= 2 && {since} < 40"));
    // After a seek while paused, it shows the position with rates.
    assert_eq!(page.seek("speed=0", &page.token), "200");
    browser.key("}");
    browser.until(&format!("{since} === 99"));
    browser.key("[");
    browser.until(&format!("{since} === 89"));
    let state = "document.getElementById('state').textContent";
    let there = browser.value(&format!("new Date({first} + 89000).toLocaleTimeString()"));
    browser.until(&format!("{state}.startsWith('recorded, ') && {state}.endsWith({there})"));
    assert_eq!(browser.value("document.getElementById('count').textContent"), "1 process");
    browser.until(
        "document.querySelector('#scroll tbody tr[data-key]').cells[4].textContent.includes('%')",
    );
    browser.picture("replay-light");
    browser.key("2");
    browser.until(&captions("['not in the recording', 'not in the recording']"));
    assert_eq!(browser.errors, Vec::<String>::new());
}
