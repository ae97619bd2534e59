//! What a service reports may hold names that users chose: no text output acts on a terminal.

use crate::served::{Served, monitor};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

/// A title, BEL, and a C1 character that begins an escape sequence, as JSON has them.
const ACTIVE: &str = r"\u001b]0;x\u0007\u009b2J";

/// Copies bytes to the end, with another beginning for the strings of these keys.
fn relay(mut from: UnixStream, mut to: UnixStream, keys: &[&str]) {
    let mut bytes = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let mut text = String::from_utf8(bytes[..length].to_vec()).unwrap();
        for key in keys {
            let plain = format!("\"{key}\":\"");
            text = text.replace(&plain, &format!("{plain}{ACTIVE}"));
        }
        if to.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn control_characters_in_reports_are_escaped() {
    let served = Served::start("test");
    let between = served.socket().with_file_name("between.sock");
    let listener = UnixListener::bind(&between).unwrap();
    let behind = served.socket().to_owned();
    // It ends with the test program.
    let _relays = std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let service = UnixStream::connect(&behind).unwrap();
            let (from, to) = (client.try_clone().unwrap(), service.try_clone().unwrap());
            let _requests = std::thread::spawn(move || relay(from, to, &[]));
            let keys = ["node", "state", "name", "value", "why", "owner"];
            let _replies = std::thread::spawn(move || relay(service, client, &keys));
        }
    });
    for words in ["status", "doctor", "list"] {
        let output = monitor().args([words, "--socket"]).arg(&between).output().unwrap();
        let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        println!("{words}: {text}");
        let is_active = |it: char| it.is_control() && it != '\n';
        assert!(!text.contains(is_active), "{words}: {text:?}");
        if words != "list" {
            assert!(text.contains(r"\u{1b}]0;x\u{7}\u{9b}2J"), "{words}: {text}");
        }
    }
}
