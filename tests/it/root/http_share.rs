//! Connections to the HTTP listener: those of one user leave room for others.

use super::privilege::{USER, able, as_user};
use crate::deadline::until;
use crate::served::{Served, monitor};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A user with one connection.
const OTHER: u32 = USER + 1;

#[test]
fn root_300_feeds_that_are_not_read_leave_room_for_another_user() {
    if !able("root_300_feeds_that_are_not_read_leave_room_for_another_user") {
        return;
    }
    let served = Served::started("[http]\nlisten = \"127.0.0.1:0\"\n", monitor(), "ebpf");
    let status = served.status();
    let address = status["http"]["address"].as_str().unwrap().trim_start_matches("http://");
    let feed = b"GET /feed HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let connect = || {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that is refused is closed.
        let _closed = stream.write_all(feed);
        stream
    };
    let feeds: Vec<TcpStream> = as_user(&[], || (0..300).map(|_| connect()).collect());
    until(|| {
        (served.status()["http"]["refused"]["too many connections"].as_u64() > Some(0))
            .then_some(())
    });
    let open = served.status()["http"]["connections"].as_u64().unwrap();
    let program =
        format!("import urllib.request as r\nprint(r.urlopen('http://{address}/metrics').status)");
    // Prometheus of another user, again and again.
    for _ in 0..10 {
        let mut scrape = Command::new("python3");
        let output = scrape.args(["-c", &program]).uid(OTHER).gid(OTHER).output().unwrap();
        assert_eq!(output.stdout, b"200\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
    println!("{open} of {} connections are open", feeds.len());
    assert!(open < 300);
}
