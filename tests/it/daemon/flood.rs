//! Floods of an ordinary user: calls whose replies are not read, monitors without number, rules on
//! what happens most, lines without end, connections that say nothing. Each is bounded in memory,
//! delays other users little, and leaves nothing behind. `cargo xtask bench service` prints the
//! delay at the 99th percentile.

use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::root::workload::Guarded;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use monitor_sys::fd_limit;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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

/// The median of the time of a call of root, and the resident memory at its highest. A busy loop
/// for each processor runs beside them, as in a comparison without the flood.
fn round_trips(served: &Served, between: impl FnMut()) -> (Duration, u64) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let _busy = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
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

/// What is flooded.
#[derive(Clone, Copy)]
enum Listener {
    Socket,
    Http,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that sends as much as is taken.
struct Sender {
    stream: Box<dyn Stream>,
    lines: Lines,
    sent: usize,
}

impl Sender {
    fn to_socket(served: &Served, lines: Lines) -> Self {
        let stream = until(|| UnixStream::connect(served.socket()).ok());
        stream.set_nonblocking(true).unwrap();
        Self { stream: Box::new(stream), lines, sent: 0 }
    }

    fn to_http(address: &str, lines: Lines) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream: Box::new(stream), lines, sent: 0 }
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

/// Readings soon wait for their budget, and users may have calls of their processes reported.
fn config() -> String {
    format!(
        "[budget]\nwindow = \"1s\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [policy]\ncontrol-own = [\"{USER}\"]\n"
    )
}

/// Floods a service as an ordinary user, and compares memory and round trips of root with those
/// before. Returns what the first connection was answered, and the counts of refusals.
#[track_caller]
fn flood(connections: usize, lines: impl Fn() -> Lines + Sync) -> (String, serde_json::Value) {
    flood_of(Listener::Socket, connections, (lines, ""))
}

/// The same, once the first connection was answered a text.
#[track_caller]
fn flood_of(
    to: Listener,
    connections: usize,
    (lines, answer): (impl Fn() -> Lines + Sync, &str),
) -> (String, serde_json::Value) {
    let _raised = fd_limit::raise();
    let sleeping = || Guarded::run(Command::new("sleep").arg("infinity"));
    let _processes: Vec<Guarded> = (0..PROCESSES).map(|_| sleeping()).collect();
    let served = Served::started(&config(), monitor(), "auto");
    // What it needs for each kind of call, and for its own numbers, belongs to idle.
    let _sample = served.connect().result("monitor", r#"{"part":"all"}"#);
    let _report = served.connect().result("probes", "{}");
    until(|| served.status()["budget"]["used"].as_f64());
    let (usual, idle) = round_trips(&served, || {});
    let allocated = served.allocated_bytes();
    let status = served.status();
    let address = status["http"]["address"].as_str().unwrap().trim_start_matches("http://");
    let connect = || match to {
        Listener::Socket => Sender::to_socket(&served, lines()),
        Listener::Http => Sender::to_http(address, lines()),
    };
    let mut senders: Vec<Sender> = as_user(&[], || (0..connections).map(|_| connect()).collect());
    let mut answers = String::new();
    until(|| {
        senders.iter_mut().filter(|_| !answer.is_empty()).for_each(Sender::send);
        answers += &senders[0].read();
        answers.contains(answer).then_some(())
    });
    let (during, most) = round_trips(&served, || senders.iter_mut().for_each(Sender::send));
    assert!(most < idle + 64 * MIB, "{} MiB above idle", (most - idle) / MIB);
    assert!(during <= usual * 10, "{during:?}, {usual:?} without the flood");
    answers += &senders[0].read();
    drop(senders);
    until(|| (served.allocated_bytes() < allocated + 4 * MIB).then_some(()));
    (answers, served.status()["refused"].take())
}

#[test]
fn root_calls_that_are_pipelined_and_not_read_are_bounded() {
    if able("root_calls_that_are_pipelined_and_not_read_are_bounded") {
        let _answers = flood(4, || monitors(2000, |_| json!({"part": "all"})));
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
fn root_10000_monitors_at_the_shortest_period_with_all_fields_are_bounded() {
    if able("root_10000_monitors_at_the_shortest_period_with_all_fields_are_bounded") {
        let all = |_| json!({"part": "all", "every_ns": 10_000_000});
        let (_, refused) = flood(10, || monitors(1000, all));
        assert!(refused["OUT_OF_RESOURCE"].as_u64().is_some(), "{refused}");
    }
}

#[test]
fn root_256_monitors_at_10_ms_with_threads_stay_within_the_budget() {
    if able("root_256_monitors_at_10_ms_with_threads_stay_within_the_budget") {
        let _answers =
            flood(1, || monitors(256, |_| json!({"threads": true, "every_ns": 10_000_000})));
    }
}

#[test]
fn root_recorders_of_all_processes_whose_samples_are_not_read_are_bounded() {
    if able("root_recorders_of_all_processes_whose_samples_are_not_read_are_bounded") {
        // As `monitor record` asks: all fields and histograms.
        let all = |_| json!({"part": "all", "every_ns": 100_000_000, "histograms": true});
        let _answers = flood(64, || monitors(1, all));
    }
}

#[test]
fn root_rules_on_the_hottest_function_and_on_a_storm_of_signals_are_bounded() {
    if !able("root_rules_on_the_hottest_function_and_on_a_storm_of_signals_are_bounded") {
        return;
    }
    let mut storm = Command::new("sh");
    let storm = storm.args(["-c", "trap : USR1; while :; do kill -USR1 $$; done"]);
    let storm = Guarded::run(storm.uid(USER).gid(USER));
    let pid = storm.pid().0;
    let lines = || {
        let rules = format!(
            "1 [0] attach([{pid}])\n10 [0] start_lib_call([{pid}],\"kill\"): 11 [0] print([$1])\n\
             20 [0] process_signal([{pid}],[]): 21 [0] print([$1,$2])\n"
        );
        // A rule that runs too often is switched off: it is switched on again.
        (rules + &"2 [0] enable(10)\n3 [0] enable(20)\n".repeat(20_000)).into_bytes()
    };
    let _answers = flood_of(Listener::Socket, 4, (lines, "print(0,["));
}

#[test]
fn root_connections_that_say_nothing_are_bounded() {
    if able("root_connections_that_say_nothing_are_bounded") {
        let _answers = flood(1000, Lines::new);
    }
}

#[test]
fn root_connections_to_the_http_listener_are_bounded() {
    if able("root_connections_to_the_http_listener_are_bounded") {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let _silent = flood_of(Listener::Http, 400, (Lines::new, ""));
        let _unread = flood_of(Listener::Http, 300, (|| get("/feed").into_bytes(), ""));
        let many = get("/metrics").repeat(5_000);
        let _pipelined = flood_of(Listener::Http, 16, (|| many.clone().into_bytes(), ""));
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
