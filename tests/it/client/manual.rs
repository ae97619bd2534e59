//! Runs every example of docs/SOCKET.md, and the script beside it.
//!
//! In a block marked `socket`, `->` lines are sent and `<-` lines are expected. `"…"` matches any
//! value; further keys are allowed.

use crate::served::Served;
use monitor_model::status::Status;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

fn fits(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Object(want), Value::Object(got)) => {
            want.iter().all(|(key, want)| got.get(key).is_some_and(|got| fits(want, got)))
        }
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(want, got)| fits(want, got))
        }
        _ => want == got,
    }
}

fn play(block: &str) -> usize {
    let service = Served::start("test");
    let mut stream = UnixStream::connect(service.socket()).expect("a daemon");
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let mut checked = 0;
    for line in block.lines() {
        if let Some(call) = line.strip_prefix("-> ") {
            writeln!(stream, "{call}").expect("the daemon reads");
        } else if let Some(want) = line.strip_prefix("<- ") {
            let got = lines.next().expect("the daemon replies").expect("text");
            // A line that is not JSON is an OMIS request.
            let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            assert!(
                fits(&read(want), &read(&got)),
                "the page has\n{want}\nbut the daemon sent\n{got}"
            );
            checked += 1;
        }
    }
    checked
}

#[test]
fn every_example_of_the_page_works() {
    let page = std::fs::read_to_string(docs("SOCKET.md")).expect("the page");
    let blocks = page.split("```socket\n").skip(1).filter_map(|rest| rest.split("```").next());
    let checked: usize = blocks.map(play).sum();
    assert!(checked > 15, "only {checked} replies of the page were checked");
}

#[test]
fn every_method_is_documented_on_the_page() {
    let page = std::fs::read_to_string(docs("SOCKET.md")).expect("the page");
    for method in monitor_protocol::call::METHODS {
        assert!(page.contains(&format!("\n### `{method}`")), "{method}");
    }
    for status in Status::ALL.iter().filter(|it| **it != Status::Success) {
        let row = format!("| {} | `{}` |", status.number(), status.name());
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_python_example_reads_a_series() {
    let service = Served::start("test");
    let mut python = Command::new("python3");
    python.arg(docs("examples/socket_client.py")).arg(service.socket()).arg("3");
    let got = python.stdin(Stdio::null()).output().expect("python3 runs");
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains(": monitor "), "{text}");
}
