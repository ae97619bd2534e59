//! The daemon under load: a thousand monitors over a hundred connections, round trips, and ten
//! monitors of all processes. `MONITOR_BENCH_SECONDS=600` measures the first for ten minutes.

use crate::load::{Sleepers, processes};
use crate::measure::median;
use crate::program::Program;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::id::Pid;
use monitor_model::read_spec::{Capability, ReadSpec};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 100;
const EACH: usize = 10;
const SECOND: u64 = 1_000_000_000;
/// Time until every monitor has sent two samples.
const WARM_UP: Duration = Duration::from_secs(3);
const FIELDS: &str = r#"["cpu_ns","rss_bytes","read_bytes","voluntary_switches","state"]"#;

/// Runs all measurements.
pub fn run() {
    let _sleepers = Sleepers::up_to(1000);
    let daemon = Daemon::start();
    single_read();
    round_trip(&daemon);
    monitors(&daemon, "staggered", 10.0);
    monitors(&daemon, "aligned", 50.0);
    all_processes(&daemon);
    killed_client(&daemon);
}

/// Measures how soon the monitors of a killed client are cancelled: a kill closes its connections.
fn killed_client(daemon: &Daemon) {
    const MONITORS: usize = 53;
    let (mut client, mut replies) = daemon.connect();
    let mut left = || {
        client.write_all(b"{\"id\":0,\"method\":\"list\"}\n").unwrap();
        let mut text = String::new();
        let _bytes = replies.read_line(&mut text).unwrap();
        text.matches(r#""period_ns""#).count()
    };
    let (mut writer, _unread) = daemon.connect();
    for n in 0..MONITORS {
        let params = format!(r#""id":"gone{n}","every_ns":10000000,"fields":{FIELDS}"#);
        writer.write_all(call(n, &params).as_bytes()).unwrap();
    }
    while left() < MONITORS {
        sleep(Duration::from_millis(10));
    }
    writer.shutdown(Shutdown::Both).unwrap();
    let start = Instant::now();
    while left() > 0 {
        sleep(Duration::from_millis(1));
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    line("53 monitors cancelled after a kill -9 of their client", took, "ms", Bar::AtMost(1000.0));
}

/// A daemon with its own socket.
pub struct Daemon {
    program: Program,
    socket: PathBuf,
}

impl Daemon {
    pub fn start() -> Self {
        Self::run(Command::new(MONITOR), &[])
    }

    /// Starts it by a command that runs the monitor, with these arguments.
    pub fn run(mut command: Command, arguments: &[&str]) -> Self {
        let socket =
            std::env::temp_dir().join(format!("monitor-bench-{}.sock", std::process::id()));
        let command = command.arg("serve").arg("--socket").arg(&socket).args(arguments);
        let program = Program::start(command).unwrap();
        let daemon = Self { program, socket };
        let start = Instant::now();
        while UnixStream::connect(&daemon.socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the daemon does not start");
            sleep(Duration::from_millis(10));
        }
        daemon
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn connect(&self) -> (UnixStream, BufReader<UnixStream>) {
        let stream = UnixStream::connect(&self.socket).unwrap();
        (stream.try_clone().unwrap(), BufReader::new(stream))
    }

    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Its CPU time.
    pub fn cpu_ns(&self) -> f64 {
        self.program.cpu_ns()
    }

    /// A number of bytes of `/proc/PID/status`.
    pub fn status_bytes(&self, key: &str) -> f64 {
        self.program.bytes(key)
    }

    /// CPU in percent of a core during a wait.
    fn percent<T>(&self, wait: impl FnOnce() -> T) -> (f64, T) {
        let (before, start) = (self.program.cpu_ns(), Instant::now());
        let waited = wait();
        let used = self.program.cpu_ns() - before;
        (used / start.elapsed().as_nanos() as f64 * 100.0, waited)
    }
}

/// Reading one process, compared with all: determines `COST_OF_ONE` of the snapshot.
fn single_read() {
    let mut ebpf = Ebpf::open(&[Capability::Snapshot, Capability::Lifetimes], 0).unwrap();
    let want = ReadSpec { processes: true, ..ReadSpec::default() };
    let own = Pid(std::process::id());
    let mut all = Vec::new();
    let mut one = Vec::new();
    for _ in 0..101 {
        all.push(micros(|| drop(ebpf.read(&want).unwrap())));
        one.push(micros(|| drop(ebpf.read_few(&[own]).unwrap().unwrap())));
    }
    let (all, one) = (median(all), median(one));
    line("reading all processes", all, "us", Bar::None);
    line("reading one alone", one, "us", Bar::None);
    line(
        "one alone, in processes of a whole reading",
        one * processes() as f64 / all,
        "x",
        Bar::None,
    );
}

fn micros(operation: impl FnOnce()) -> f64 {
    let start = Instant::now();
    operation();
    start.elapsed().as_nanos() as f64 / 1e3
}

/// A request and its reply, minus the reading itself, which is measured in the same run.
fn round_trip(daemon: &Daemon) {
    let mut ebpf = Ebpf::open(&[Capability::Snapshot, Capability::Lifetimes], 0).unwrap();
    let _all = ebpf.read(&ReadSpec { processes: true, ..ReadSpec::default() }).unwrap();
    let own = Pid(std::process::id());
    let (mut writer, mut reader) = daemon.connect();
    let call = call(1, &format!(r#""fields":{FIELDS},"targets":[{{"pid":{}}}]"#, own.0));
    // After a monitor of all processes the daemon knows their number.
    let mut text = String::new();
    let mut request = |line: &str| {
        let start = Instant::now();
        writer.write_all(line.as_bytes()).unwrap();
        text.clear();
        let _bytes = reader.read_line(&mut text).unwrap();
        start.elapsed().as_nanos() as f64 / 1e3
    };
    let _all = request(&self::call(0, r#""fields":["pid"]"#));
    let mut beyond = Vec::new();
    for _ in 0..2000 {
        let reading = micros(|| drop(ebpf.read_few(&[own]).unwrap().unwrap()));
        beyond.push(request(&call) - reading);
    }
    line(
        "round trip beyond the reading, p50",
        quantile(&mut beyond, 0.5),
        "us",
        Bar::AtMost(100.0),
    );
    line(
        "round trip beyond the reading, p99",
        quantile(&mut beyond, 0.99),
        "us",
        Bar::AtMost(1000.0),
    );
}

pub fn call(tag: usize, params: &str) -> String {
    format!("{{\"id\":{tag},\"method\":\"monitor\",\"params\":{{{params}}}}}\n")
}

pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// Events received by a connection.
#[derive(Default)]
struct Received {
    late_ms: Vec<f64>,
    missed: u64,
    dropped: u64,
}

/// A thousand monitors at 1 Hz, each of one process with five fields.
fn monitors(daemon: &Daemon, phases: &str, bar: f64) {
    let seconds = std::env::var("MONITOR_BENCH_SECONDS").ok().and_then(|it| it.parse().ok());
    let measured = Duration::from_secs(seconds.unwrap_or(20));
    let pids: Vec<u32> = crate::load::pids().collect();
    let from = Instant::now() + WARM_UP;
    let receivers: Vec<_> = (0..CONNECTIONS)
        .map(|conn| {
            let (mut writer, reader) = daemon.connect();
            for n in 0..EACH {
                let pid = pids[(conn * EACH + n) % pids.len()];
                let target = format!(r#""targets":[{{"pid":{pid}}}],"follow":true"#);
                let params = format!(r#""every_ns":{SECOND},"fields":{FIELDS},{target}"#);
                writer.write_all(call(n, &params).as_bytes()).unwrap();
                if phases == "staggered" {
                    sleep(Duration::from_micros(SECOND / 1000 / (CONNECTIONS * EACH) as u64));
                }
            }
            (writer, receive(reader, from, from + measured))
        })
        .collect();
    sleep(from.saturating_duration_since(Instant::now()));
    let before = daemon.program.bytes("VmRSS:");
    let (percent, half) = daemon.percent(|| {
        sleep(measured / 2);
        let half = daemon.program.bytes("VmRSS:");
        sleep(measured / 2);
        half
    });
    let after = daemon.program.bytes("VmRSS:");
    let mut all = Received::default();
    for (writer, receiver) in receivers {
        let received = receiver.join().unwrap();
        drop(writer);
        all.late_ms.extend(received.late_ms);
        all.missed = all.missed.max(received.missed);
        all.dropped += received.dropped;
    }
    let due = (measured.as_secs() as usize * CONNECTIONS * EACH) as f64;
    let what = |what: &str| format!("1,000 monitors, {phases} phases: {what}");
    let lacking = (1.0 - all.late_ms.len() as f64 / due) * 100.0;
    line(&what("not delivered"), lacking.max(0.0), "%", Bar::AtMost(0.5));
    line(&what("ticks missed by one of them"), all.missed as f64, "", Bar::AtMost(0.0));
    line(&what("dropped"), all.dropped as f64, "", Bar::AtMost(0.0));
    line(&what("lateness p50"), quantile(&mut all.late_ms, 0.5), "ms", Bar::None);
    line(&what("lateness p99"), quantile(&mut all.late_ms, 0.99), "ms", Bar::AtMost(bar));
    line(&what("CPU"), percent, "% core", Bar::AtMost(5.0));
    line(&what("memory grown"), (after - before) / 1e6, "MB", Bar::AtMost(2.0));
    line(&what("in the second half"), (after - half) / 1e6, "MB", Bar::AtMost(0.5));
}

/// Reads events until a time.
fn receive(mut reader: BufReader<UnixStream>, from: Instant, to: Instant) -> JoinHandle<Received> {
    spawn(move || {
        let mut received = Received::default();
        let mut by_series = HashMap::<String, Vec<(f64, f64)>>::new();
        let mut text = String::new();
        while Instant::now() < to {
            text.clear();
            if reader.read_line(&mut text).unwrap() == 0 {
                break;
            }
            if Instant::now() < from || !text.contains(r#""method":"event""#) {
                continue;
            }
            let (missed, seq) = (number(&text, r#""missed":"#), number(&text, r#""seq":"#));
            received.missed = received.missed.max(missed);
            received.dropped += number(&text, r#""dropped":"#);
            let tick = (seq + missed) as f64 * SECOND as f64;
            let late = number(&text, r#""late_ns":"#) as f64;
            let id = text.split(r#""id":""#).nth(1).and_then(|it| it.split('"').next());
            let arrived = from.elapsed().as_nanos() as f64 - tick;
            by_series.entry(id.unwrap().to_owned()).or_default().push((arrived, arrived - late));
        }
        received.late_ms = by_series.into_values().flat_map(lateness).collect();
        received
    })
}

/// The lateness of the events of a series, in milliseconds. For each event: its arrival, and its
/// arrival minus its lateness at the daemon, both relative to its tick. The minimum of the second
/// is the start of the series plus one delivery.
fn lateness(series: Vec<(f64, f64)>) -> Vec<f64> {
    let began = series.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
    series.into_iter().map(|(arrived, _)| (arrived - began) / 1e6).collect()
}

fn number(text: &str, key: &str) -> u64 {
    let after = text.split_once(key).map_or("", |(_, after)| after);
    let end = after.find(|it: char| !it.is_ascii_digit()).unwrap_or(after.len());
    after[..end].parse().unwrap_or(0)
}

/// Monitors of all processes at 1 Hz: ten compared with one.
fn all_processes(daemon: &Daemon) {
    let [one, ten] = [1, 10].map(|monitors| {
        let until = Instant::now() + WARM_UP + Duration::from_secs(10);
        let receivers: Vec<_> = (0..monitors)
            .map(|_| {
                let (mut writer, reader) = daemon.connect();
                let params = format!(r#""every_ns":{SECOND},"fields":{FIELDS}"#);
                writer.write_all(call(0, &params).as_bytes()).unwrap();
                (writer, receive(reader, Instant::now(), until))
            })
            .collect();
        sleep(WARM_UP);
        let (percent, ()) = daemon.percent(|| sleep(Duration::from_secs(9)));
        let received =
            receivers.into_iter().map(|(_, receiver)| receiver.join().unwrap().late_ms.len());
        let received: usize = received.sum();
        assert!(received >= 9 * monitors, "{monitors} monitors sent only {received} samples");
        percent
    });
    line("one monitor of all processes at 1 Hz", one, "% core", Bar::None);
    line("ten of them", ten, "% core", Bar::None);
    line("ten compared with one", ten / one, "x", Bar::None);
}
