//! What a user would run instead, side by side with `monitor watch`: once a second, the same
//! 1,000 processes, CPU of everything that was started.
//!
//! They do not do the same work; the reader of the table knows what each of them gives.
//! What is not installed is named, with the package that has it. No service is touched.

use crate::load::Sleepers;
use crate::program::Program;
use crate::scrape::{free_port, scrape};
use crate::watch::{MONITOR, WARM_UP};
use std::io::{Error, Result};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Readings that are measured.
const READINGS: u32 = 8;
/// How long a program may take until it answers its first scrape.
const DEADLINE: Duration = Duration::from_secs(10);

/// A program as a user would start it.
struct Peer {
    name: &'static str,
    /// Debian's package.
    package: &'static str,
    program: &'static str,
    /// `{port}` is a free port, which is scraped; `{out}` a file to write; `{bench}` this folder.
    arguments: &'static [&'static str],
}

const PEERS: &[Peer] = &[
    ours("monitor watch --top 50", &["watch", "--every", "1s", "--top", "50"]),
    ours("monitor watch --format json, all", &["watch", "--every", "1s", "--format", "json"]),
    ours(
        "monitor watch --backend procfs --top 50",
        &["watch", "--every", "1s", "--top", "50", "--backend", "procfs"],
    ),
    Peer { name: "top -b", package: "procps", program: "top", arguments: &["-b", "-d", "1"] },
    Peer {
        name: "pidstat -urd",
        package: "sysstat",
        program: "pidstat",
        arguments: &["-urd", "1"],
    },
    Peer { name: "atop -w", package: "atop", program: "atop", arguments: &["-w", "{out}", "1"] },
    // The agent that reads `/proc`, inside the logger: needs no daemon.
    Peer {
        name: "pmlogger of pcp, proc metrics",
        package: "pcp",
        program: "pmlogger",
        arguments: &[
            "-o",
            "-K",
            "add,3,/var/lib/pcp/pmdas/proc/pmda_proc.so,proc_init",
            "-n",
            "/var/lib/pcp/pmdas/proc/root",
            "-l",
            "{out}.log",
            "-c",
            "{bench}/pmlogger.conf",
            "{out}",
        ],
    },
    Peer {
        name: "node_exporter --collector.processes (counts only)",
        package: "prometheus-node-exporter",
        program: "prometheus-node-exporter",
        arguments: &["--collector.processes", "--web.listen-address=127.0.0.1:{port}"],
    },
    Peer {
        name: "process-exporter by name, defaults",
        package: "prometheus-process-exporter",
        program: "prometheus-process-exporter",
        arguments: &[
            "-config.path={bench}/process-exporter-names.yml",
            "-web.listen-address=127.0.0.1:{port}",
        ],
    },
    Peer {
        name: "process-exporter by pid, no threads, no smaps",
        package: "prometheus-process-exporter",
        program: "prometheus-process-exporter",
        arguments: &[
            "-config.path={bench}/process-exporter-pids.yml",
            "-threads=false",
            "-gather-smaps=false",
            "-web.listen-address=127.0.0.1:{port}",
        ],
    },
    Peer {
        name: "bpftrace, CPU by pid (user half only)",
        package: "bpftrace",
        program: "bpftrace",
        arguments: &["-e", CPU_BY_PID],
    },
];

/// The same for every process that runs; what it costs the switches themselves is not in its CPU.
const CPU_BY_PID: &str = "tracepoint:sched:sched_switch { \
     if (@last[cpu]) { @ns[args->prev_pid] = sum(nsecs - @last[cpu]); } @last[cpu] = nsecs; } \
     interval:s:1 { print(@ns); clear(@ns); }";

const fn ours(name: &'static str, arguments: &'static [&'static str]) -> Peer {
    Peer { name, package: "monitor", program: MONITOR, arguments }
}

/// Where those write that write files; made anew for each of them.
const OUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/peers");

/// What one of them used.
struct Used {
    cpu_ms: f64,
    resident: f64,
    /// KiB that it wrote for each.
    written: f64,
}

/// Those who write what they read into a file: CPU milliseconds and bytes for each reading.
pub fn recorders() {
    let writes = |peer: &&Peer| peer.arguments.contains(&"{out}");
    for peer in PEERS.iter().filter(writes) {
        match peer.measure() {
            Ok(Used { cpu_ms, written, .. }) => {
                let percent = cpu_ms / 10.0;
                println!("  {:<50} {percent:>10.2} % core, {written:>8.1} KiB/s", peer.name);
            }
            Err(error) => println!("  {:<50} not measured: {error} ({})", peer.name, peer.package),
        }
    }
}

/// CPU milliseconds for each reading, and how many times ours.
pub fn run() {
    let _sleepers = Sleepers::up_to(1000);
    println!("  {:<50} {:>10} {:>8} {:>7}", "once a second", "CPU ms", "RSS MB", "x ours");
    let mut floor = None;
    for peer in PEERS {
        match peer.measure() {
            Ok(Used { cpu_ms, resident, .. }) => {
                let ours = cpu_ms / *floor.get_or_insert(cpu_ms);
                println!("  {:<50} {cpu_ms:>10.2} {resident:>8.1} {ours:>7.1}", peer.name);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                println!("  {:<50} not measured: apt-get install {}", peer.name, peer.package);
            }
            Err(error) => println!("  {:<50} not measured: {error}", peer.name),
        }
    }
}

impl Peer {
    fn measure(&self) -> Result<Used> {
        let _there_is_none = std::fs::remove_dir_all(OUT);
        std::fs::create_dir_all(OUT)?;
        let port = free_port()?;
        let is_scraped = self.arguments.iter().any(|it| it.contains("{port}"));
        let mut program = Program::start(&mut self.command(port))?;
        let ready = if is_scraped {
            answers(port)
        } else {
            sleep(WARM_UP);
            Ok(())
        };
        if !program.lives() {
            return Err(Error::other(format!("{} ended by itself", self.program)));
        }
        ready?;
        let (before, start) = (program.cpu_ns(), Instant::now());
        let length = length();
        for reading in 1..=READINGS {
            if is_scraped {
                let _ = scrape(port)?;
            }
            let next = start + Duration::from_secs(reading.into());
            sleep(next.saturating_duration_since(Instant::now()));
        }
        let cpu_ms = (program.cpu_ns() - before) / 1e6 / f64::from(READINGS);
        let written = (self::length() - length) / 1024.0 / f64::from(READINGS);
        Ok(Used { cpu_ms, resident: program.bytes("VmRSS:") / 1e6, written })
    }

    fn command(&self, port: u16) -> Command {
        let out = format!("{OUT}/{}", self.package);
        let bench = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/bench");
        let fill = |argument: &&str| {
            let filled = argument.replace("{port}", &port.to_string());
            filled.replace("{out}", &out).replace("{bench}", bench)
        };
        let mut command = Command::new(self.program);
        command.args(self.arguments.iter().map(fill));
        // Process accounting is a switch of the whole node; a bench leaves it as it is.
        command.env("ATOPACCT", "");
        command
    }
}

/// Bytes of all that was written.
fn length() -> f64 {
    let files = std::fs::read_dir(OUT).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|it| it.len() as f64).sum()
}

/// Waits for the first answer, which is also the first reading.
fn answers(port: u16) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    loop {
        match scrape(port) {
            Ok(_) => return scrape(port).map(drop),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}
