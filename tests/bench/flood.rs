//! Floods of an ordinary user: round trips of root beside each of them, compared with those beside
//! an equally busy loop without it; and the memory of the service during it and after it, its own
//! and the kernel's.

use crate::kernel_memory::{MemoryGroup, bpf_bytes};
use crate::load::Sleepers;
use crate::program::Program;
use crate::service::{Daemon, call, quantile};
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::{BufRead as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Round trips that are compared.
const ROUNDS: usize = 1000;
/// The user that floods.
const USER: u32 = 61_234;

/// A flood: its name, connections, what each of them sends, given a process of the user.
type Flood = (&'static str, (Listener, usize), fn(u32) -> Vec<u8>);

/// What is flooded.
#[derive(Clone, Copy)]
enum Listener {
    Socket,
    /// The socket, beside a process of the user that sends itself signals.
    SocketBesideStorm,
    Http,
}

const FLOODS: [Flood; 11] = [
    ("4 x 2,000 calls, replies unread", (Listener::Socket, 4), |_| calls(2000, r#""part":"all""#)),
    ("1,000 monitors of one field at 100 ms", (Listener::Socket, 1), |_| {
        calls(1000, r#""fields":["rss_bytes"],"every_ns":100000000"#)
    }),
    ("10,000 monitors of all fields at 10 ms", (Listener::Socket, 10), |_| {
        calls(1000, r#""part":"all","every_ns":10000000"#)
    }),
    ("256 monitors with threads at 10 ms", (Listener::Socket, 1), |_| {
        calls(256, r#""threads":true,"every_ns":10000000"#)
    }),
    ("64 recorders of all fields and histograms", (Listener::Socket, 64), |_| {
        calls(1, r#""part":"all","every_ns":100000000,"histograms":true"#)
    }),
    ("4 x rules on the hottest function and on signals", (Listener::SocketBesideStorm, 4), rules),
    ("200 lines without an end", (Listener::Socket, 200), |_| vec![b'{'; 1_000_000]),
    ("1,000 connections that say nothing", (Listener::Socket, 1000), |_| Vec::new()),
    ("400 HTTP connections that say nothing", (Listener::Http, 400), |_| Vec::new()),
    ("300 HTTP feeds, unread", (Listener::Http, 300), |_| get("/feed")),
    ("16 x 5,000 HTTP scrapes, unread", (Listener::Http, 16), |_| get("/metrics").repeat(5000)),
];

fn calls(n: usize, params: &str) -> Vec<u8> {
    (0..n).flat_map(|tag| call(tag, params).into_bytes()).collect()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// A rule that runs too often is switched off: it is switched on again.
fn rules(pid: u32) -> Vec<u8> {
    let rules = format!(
        "1 [0] attach([{pid}])\n10 [0] start_lib_call([{pid}],\"kill\"): 11 [0] print([$1])\n\
         20 [0] process_signal([{pid}],[]): 21 [0] print([$1,$2])\n"
    );
    (rules + &"2 [0] enable(10)\n3 [0] enable(20)\n".repeat(20_000)).into_bytes()
}

/// A process of the user that sends itself signals all the time.
fn storm() -> Program {
    let mut command = Command::new("sh");
    let command = command.args(["-c", "trap : USR1; while :; do kill -USR1 $$; done"]);
    Program::start(command.uid(USER).gid(USER)).unwrap()
}

/// A configuration in which users may have calls of their processes reported, with an HTTP
/// listener; and the address of that.
fn configuration() -> (PathBuf, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).unwrap();
    let text = format!("[http]\nlisten = \"{free}\"\n[policy]\ncontrol-own = [\"{USER}\"]\n");
    let path = std::env::temp_dir().join(format!("monitor-bench-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    (path, free)
}

/// Runs all floods.
pub fn run() {
    let _sleepers = Sleepers::up_to(400);
    let _raised = monitor_sys::fd_limit::raise();
    let (config, address) = configuration();
    let config = config.to_str().unwrap();
    for flood in FLOODS {
        // A service of its own: the next flood begins with the full credit of the user.
        let group = MemoryGroup::new();
        if group.is_none() {
            println!("  kernel memory: no memory groups");
        }
        let command = group.as_ref().map(|it| it.command(MONITOR));
        let command = command.unwrap_or_else(|| Command::new(MONITOR));
        let daemon = Daemon::run(command, &["--config", config]);
        measure((&daemon, address), group.as_ref(), flood);
        drop(daemon);
    }
    let _gone = std::fs::remove_file(config);
}

/// Memory of the service in MiB: its resident pages, the kernel's for it, and both. The
/// pages of the kernel that the service maps, as the arrays of programs, are resident too; both has
/// them once.
fn memory(daemon: &Daemon, group: Option<&MemoryGroup>) -> [f64; 3] {
    let kernel = group.and_then(MemoryGroup::kernel_bytes).unwrap_or(0.0);
    let both = daemon.status_bytes("RssAnon:") + kernel;
    [daemon.status_bytes("VmRSS:"), kernel, both].map(|bytes| bytes / f64::from(1 << 20))
}

fn measure(
    (daemon, address): (&Daemon, SocketAddr),
    group: Option<&MemoryGroup>,
    (name, (listener, connections), lines): Flood,
) {
    let storm = matches!(listener, Listener::SocketBesideStorm).then(storm);
    let usual = round_trips(daemon, || {});
    let idle = memory(daemon, group);
    let above_idle = || {
        let now = memory(daemon, group);
        [0, 1, 2].map(|at| now[at] - idle[at])
    };
    let lines = lines(storm.as_ref().map_or(0, Program::pid));
    let connect = || match listener {
        Listener::Socket | Listener::SocketBesideStorm => Client::connect(daemon),
        Listener::Http => Client::connect_http(address),
    };
    let mut clients = as_user(|| (0..connections).map(|_| connect()).collect::<Vec<_>>());
    let mut most = [0.0_f64; 3];
    let beside = round_trips(daemon, || {
        clients.iter_mut().for_each(|client| client.send(&lines));
        for (most, now) in most.iter_mut().zip(above_idle()) {
            *most = most.max(now);
        }
    });
    drop(clients);
    let end = Instant::now();
    while above_idle().iter().any(|left| *left > 4.0) && end.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(100));
    }
    let [own, kernel, both] = above_idle();
    line(&format!("{name}: p99 without it"), usual, "ms", Bar::None);
    line("  p99 beside it", beside / usual, "x", Bar::AtMost(10.0));
    line("  resident memory above idle", most[0], "MiB", Bar::AtMost(64.0));
    line("  kernel memory above idle", most[1], "MiB", Bar::AtMost(64.0));
    line("  both above idle", most[2], "MiB", Bar::AtMost(64.0));
    line("  resident after it, within 10 s", own, "MiB", Bar::AtMost(4.0));
    line("  kernel after it, within 10 s", kernel, "MiB", Bar::AtMost(4.0));
    line("  both after it, within 10 s", both, "MiB", Bar::AtMost(4.0));
    let [own, kernel, _] = idle;
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
    stream: Box<dyn Write + Send>,
    sent: usize,
}

impl Client {
    fn connect(daemon: &Daemon) -> Self {
        let (stream, _) = daemon.connect();
        stream.set_nonblocking(true).unwrap();
        Self { stream: Box::new(stream), sent: 0 }
    }

    fn connect_http(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream: Box::new(stream), sent: 0 }
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
