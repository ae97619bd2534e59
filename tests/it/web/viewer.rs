//! Viewers of the page as programs: what the feed tells, that all share one monitor, and that one
//! who never reads holds up nobody.

use super::get::Web;
use crate::deadline::until;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

/// A viewer who reads.
pub struct Viewer(BufReader<TcpStream>);

impl Viewer {
    /// Who has the token.
    pub fn of(web: &Web, path: &str) -> Self {
        Self::with(web, path, &web.token())
    }

    /// With this header.
    pub fn with(web: &Web, path: &str, token: &str) -> Self {
        let mut stream = web.connect();
        let host = web.address;
        // A body of 1.0 has no chunks, whose heads would stand in the middle of events.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n{token}\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    /// The next event of that name.
    pub fn event(&mut self, name: &str) -> Value {
        let mut is_it = false;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the feed ended");
            if let Some(event) = line.strip_prefix("event: ") {
                is_it = event.trim() == name;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn a_viewer_gets_the_whole_then_what_changes_and_what_the_service_says_of_itself() {
    let web = Web::with("");
    let mut viewer = Viewer::of(&web, "/feed");
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
    let mut viewers: Vec<_> = (0..5).map(|_| Viewer::of(&web, "/feed")).collect();
    for viewer in &mut viewers {
        let _ = viewer.event("change");
    }
    assert_eq!(web.served.status()["monitors"], 1);
    drop(viewers);
    until(|| (web.served.status()["monitors"] == 0).then_some(()));
}

#[test]
fn one_process_is_told_second_by_second_and_nonsense_is_refused() {
    let web = Web::reading("", "procfs");
    let pid = std::process::id();
    let mut viewer = Viewer::of(&web, &format!("/process?pid={pid}"));
    for _ in 0..2 {
        assert_eq!(viewer.event("sample")["processes"][0]["pid"], pid);
    }
    drop(viewer);
    until(|| (web.served.status()["monitors"] == 0).then_some(()));
    assert_eq!(web.get("/process?pid=x", &[]).status, 400);
    assert_eq!(web.get("/latency?of=everything", &[]).status, 400);
    let mut gone = Viewer::of(&web, "/process?pid=4194304");
    assert!(gone.event("refused")["message"].is_string());
}

#[test]
fn viewers_who_never_read_hold_up_nobody() {
    let web = Web::reading("", "procfs");
    let mut viewer = Viewer::of(&web, "/feed");
    let mut hear = |changes: usize| (0..changes).for_each(|_| drop(viewer.event("change")));
    // What a reading needs is there by then.
    hear(3);
    let before = web.served.resident_bytes();
    let deaf: Vec<_> = (0..20).map(|_| Viewer::of(&web, "/feed")).collect();
    hear(5);
    assert_eq!(web.get("/metrics", &[]).status, 200);
    assert!(web.served.resident_bytes().saturating_sub(before) < 16 << 20);
    drop(deaf);
    until(|| (web.served.status()["http"]["connections"].as_u64()? <= 1).then_some(()));
}

#[test]
fn who_fits_a_condition_is_told_and_a_mistake_at_its_place() {
    let web = Web::with("");
    let mut viewer = Viewer::of(&web, "/fits?filter=comm%20~%20stats");
    let fits = viewer.event("fits");
    assert_eq!((fits.as_array().unwrap().len(), &fits[0][0]), (1, &1234.into()));
    let mut nobody = Viewer::of(&web, "/fits?filter=rss%20%3E%201000G");
    assert_eq!(nobody.event("fits"), Value::Array(vec![]));
    let mut wrong = Viewer::of(&web, "/fits?filter=cpu%20%3E%20x");
    let wrong = wrong.event("wrong");
    assert_eq!(wrong["at"], 6, "{wrong}");
    let mut stranger = Viewer::with(&web, "/fits?filter=stats", "X-Nothing: 1");
    assert!(stranger.event("fits").is_array());
}
