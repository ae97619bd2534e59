//! Viewers of the page, as programs: the events of the feed, the shared monitor, and viewers that
//! never read.

use super::get::Web;
use crate::deadline::until;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

/// A viewer that reads events.
pub struct Viewer(BufReader<TcpStream>);

impl Viewer {
    /// Connects with the token.
    pub fn connect(web: &Web, path: &str) -> Self {
        Self::with(web, path, &web.token())
    }

    /// Connects with a header.
    pub fn with(web: &Web, path: &str, header: &str) -> Self {
        let mut stream = web.connect();
        let host = web.address;
        // HTTP/1.0 has no chunked encoding, whose headers would interrupt the events.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n{header}\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    /// Waits for the next event with a name.
    pub fn event(&mut self, name: &str) -> Value {
        let mut is_named = false;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the feed ended");
            if let Some(event) = line.strip_prefix("event: ") {
                is_named = event.trim() == name;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_named) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn a_viewer_gets_a_snapshot_then_changes_and_the_status_of_the_daemon() {
    let web = Web::with("");
    let mut viewer = Viewer::connect(&web, "/feed");
    let whole = viewer.event("whole");
    assert_eq!(whole["columns"][0], "pid");
    let change = viewer.event("change");
    assert_eq!(
        (&change["backend"], change["new"][0][4].as_str()),
        (&"test".into(), Some("test-stats"))
    );
    assert!(viewer.event("status")["version"].is_string());
    assert!(viewer.event("probes")["capabilities"].is_array());
    assert!(viewer.event("list").is_array());
}

#[test]
fn all_viewers_share_one_monitor_which_ends_after_the_last() {
    let web = Web::with("");
    let mut viewers: Vec<_> = (0..5).map(|_| Viewer::connect(&web, "/feed")).collect();
    for viewer in &mut viewers {
        let _ = viewer.event("change");
    }
    assert_eq!(web.served.status()["monitors"], 1);
    drop(viewers);
    until(|| (web.served.status()["monitors"] == 0).then_some(()));
}

#[test]
fn the_feed_of_one_process_has_samples_and_a_malformed_query_is_refused() {
    let web = Web::reading("", "procfs");
    let pid = std::process::id();
    let mut viewer = Viewer::connect(&web, &format!("/process?pid={pid}"));
    for _ in 0..2 {
        assert_eq!(viewer.event("sample")["processes"][0]["pid"], pid);
    }
    drop(viewer);
    until(|| (web.served.status()["monitors"] == 0).then_some(()));
    assert_eq!(web.get("/process?pid=x", &[]).status, 400);
    assert_eq!(web.get("/latency?of=everything", &[]).status, 400);
    let mut gone = Viewer::connect(&web, "/process?pid=4194304");
    assert!(gone.event("refused")["message"].is_string());
}

#[test]
fn viewers_that_never_read_do_not_delay_others() {
    let web = Web::reading("", "procfs");
    let mut viewer = Viewer::connect(&web, "/feed");
    let mut receive = |changes: usize| (0..changes).for_each(|_| drop(viewer.event("change")));
    // After these, the memory for a reading is allocated.
    receive(3);
    let before = web.served.resident_bytes();
    let stalled: Vec<_> = (0..20).map(|_| Viewer::connect(&web, "/feed")).collect();
    receive(5);
    assert_eq!(web.get("/metrics", &[]).status, 200);
    assert!(web.served.resident_bytes().saturating_sub(before) < 16 << 20);
    drop(stalled);
    until(|| (web.served.status()["http"]["connections"].as_u64()? <= 1).then_some(()));
}

#[test]
fn a_filter_lists_matching_processes_and_an_error_has_a_position() {
    let web = Web::with("");
    let mut viewer = Viewer::connect(&web, "/fits?filter=comm%20~%20stats");
    let fits = viewer.event("fits");
    assert_eq!((fits.as_array().unwrap().len(), &fits[0][0]), (1, &1234.into()));
    let mut empty = Viewer::connect(&web, "/fits?filter=rss%20%3E%201000G");
    assert_eq!(empty.event("fits"), Value::Array(vec![]));
    let mut wrong = Viewer::connect(&web, "/fits?filter=cpu%20%3E%20x");
    let wrong = wrong.event("wrong");
    assert_eq!(wrong["at"], 6, "{wrong}");
    let mut anonymous = Viewer::with(&web, "/fits?filter=stats", "X-Nothing: 1");
    assert!(anonymous.event("fits").is_array());
}
