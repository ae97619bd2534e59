//! Floods of an ordinary user: round trips of root beside each of them, compared with those beside
//! an equally busy loop without it; and the memory of the service during it and after it, its own
//! and the kernel's.

use crate::kernel_memory::{MemoryGroup, bpf_bytes};
use crate::load::Sleepers;
use crate::service::{Daemon, call, quantile};
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{BufRead as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Round trips that are compared.
const ROUNDS: usize = 1000;
/// The user that floods.
const USER: u32 = 61_234;

/// A flood: its name, connections, what each of them sends.
type Flood = (&'static str, usize, fn() -> Vec<u8>);

const FLOODS: [Flood; 6] = [
    ("4 x 2,000 calls, replies unread", 4, || calls(2000, r#""part":"all""#)),
    ("1,000 monitors of one field at 100 ms", 1, || {
        calls(1000, r#""fields":["rss_bytes"],"every_ns":100000000"#)
    }),
    ("10,000 monitors of all fields at 10 ms", 10, || {
        calls(1000, r#""part":"all","every_ns":10000000"#)
    }),
    ("256 monitors with threads at 10 ms", 1, || {
        calls(256, r#""threads":true,"every_ns":10000000"#)
    }),
    ("200 lines without an end", 200, || vec![b'{'; 1_000_000]),
    ("1,000 connections that say nothing", 1000, Vec::new),
];

fn calls(n: usize, params: &str) -> Vec<u8> {
    (0..n).flat_map(|tag| call(tag, params).into_bytes()).collect()
}

/// Runs all floods.
pub fn run() {
    let _sleepers = Sleepers::up_to(400);
    let _raised = monitor_sys::fd_limit::raise();
    for flood in FLOODS {
        // A service of its own: the next flood begins with the full credit of the user.
        let group = MemoryGroup::new();
        if group.is_none() {
            println!("  kernel memory: no memory groups");
        }
        let command = group.as_ref().map(|it| it.command(MONITOR));
        let daemon = Daemon::run(command.unwrap_or_else(|| Command::new(MONITOR)));
        measure(&daemon, group.as_ref(), flood);
        drop(daemon);
    }
}

/// Memory of the service in MiB: its own, the kernel's for it.
fn memory(daemon: &Daemon, group: Option<&MemoryGroup>) -> [f64; 2] {
    let kernel = group.and_then(MemoryGroup::kernel_bytes).unwrap_or(0.0);
    [daemon.resident_bytes(), kernel].map(|bytes| bytes / f64::from(1 << 20))
}

fn measure(daemon: &Daemon, group: Option<&MemoryGroup>, (name, connections, lines): Flood) {
    let usual = round_trips(daemon, || {});
    let idle = memory(daemon, group);
    let above_idle = || {
        let [own, kernel] = memory(daemon, group);
        [own - idle[0], kernel - idle[1]]
    };
    let lines = lines();
    let mut clients =
        as_user(|| (0..connections).map(|_| Client::connect(daemon)).collect::<Vec<_>>());
    let mut most = [0.0_f64; 3];
    let beside = round_trips(daemon, || {
        clients.iter_mut().for_each(|client| client.send(&lines));
        let [own, kernel] = above_idle();
        for (most, now) in most.iter_mut().zip([own, kernel, own + kernel]) {
            *most = most.max(now);
        }
    });
    drop(clients);
    let end = Instant::now();
    let left = || above_idle().into_iter().sum::<f64>();
    while left() > 4.0 && end.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(100));
    }
    let [own, kernel] = above_idle();
    line(&format!("{name}: p99 without it"), usual, "ms", Bar::None);
    line("  p99 beside it", beside / usual, "x", Bar::AtMost(10.0));
    line("  resident memory above idle", most[0], "MiB", Bar::AtMost(64.0));
    line("  kernel memory above idle", most[1], "MiB", Bar::AtMost(64.0));
    line("  both above idle", most[2], "MiB", Bar::AtMost(64.0));
    line("  resident after it, within 10 s", own, "MiB", Bar::AtMost(4.0));
    line("  kernel after it, within 10 s", kernel, "MiB", Bar::AtMost(4.0));
    line("  both after it, within 10 s", own + kernel, "MiB", Bar::AtMost(4.0));
    let [own, kernel] = idle;
    line("  idle: resident memory", own, "MiB", Bar::None);
    line("  idle: kernel memory", kernel, "MiB", Bar::None);
    let bpf = bpf_bytes(daemon.pid()) / f64::from(1 << 20);
    line("  of it BPF maps and programs", bpf, "MiB", Bar::None);
}

/// The 99th percentile of round trips of root in milliseconds, beside a busy loop for each
/// processor.
fn round_trips(daemon: &Daemon, mut between: impl FnMut()) -> f64 {
    let (mut writer, mut reader) = daemon.connect();
    let (over, request) = (AtomicBool::new(false), call(1, r#""fields":["pid"],"top":1"#));
    scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let _busy = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut one = || {
            between();
            let start = Instant::now();
            writer.write_all(request.as_bytes()).unwrap();
            let _bytes = reader.read_line(&mut String::new()).unwrap();
            start.elapsed().as_secs_f64() * 1e3
        };
        let mut taken: Vec<f64> = (0..ROUNDS).map(|_| one()).collect();
        over.store(true, Ordering::Relaxed);
        quantile(&mut taken, 0.99)
    })
}

/// A connection that sends as much as is taken, and reads nothing.
struct Client {
    stream: UnixStream,
    sent: usize,
}

impl Client {
    fn connect(daemon: &Daemon) -> Self {
        let (stream, _) = daemon.connect();
        stream.set_nonblocking(true).unwrap();
        Self { stream, sent: 0 }
    }

    fn send(&mut self, lines: &[u8]) {
        let part = &lines[self.sent..];
        // The service may have closed it.
        self.sent += self.stream.write(&part[..part.len().min(1 << 16)]).unwrap_or(0);
    }
}

/// Does something on a thread of the user.
fn as_user<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let (uid, gid) = (Uid::from_raw(USER), Gid::from_raw(USER));
    let act = || {
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    scope(|scope| scope.spawn(act).join().unwrap())
}
