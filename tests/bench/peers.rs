//! Comparable programs beside `monitor watch`: once a second, the same 1,000 processes, CPU of all
//! started processes.
//!
//! The programs do not do the same work: compare with care. Programs that are not installed are
//! listed with their package. No running service is changed.

use crate::load::Sleepers;
use crate::program::Program;
use crate::scrape::{free_port, scrape};
use crate::watch::{MONITOR, WARM_UP};
use std::io::{Error, Result};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Number of measured readings.
const READINGS: u32 = 8;
/// Timeout for the first answer of a program.
const DEADLINE: Duration = Duration::from_secs(10);

/// A program to measure.
struct Peer {
    name: &'static str,
    /// The Debian package.
    package: &'static str,
    program: &'static str,
    /// `{port}` is a free port that is scraped, `{out}` a file to write, `{bench}` this folder.
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
    // With the agent that reads `/proc` inside the logger: needs no daemon.
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

/// CPU time of every process; its own CPU does not include the cost of its hook.
const CPU_BY_PID: &str = "tracepoint:sched:sched_switch { \
     if (@last[cpu]) { @ns[args->prev_pid] = sum(nsecs - @last[cpu]); } @last[cpu] = nsecs; } \
     interval:s:1 { print(@ns); clear(@ns); }";

const fn ours(name: &'static str, arguments: &'static [&'static str]) -> Peer {
    Peer { name, package: "monitor", program: MONITOR, arguments }
}

/// Folder for output files; recreated for each program.
const OUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/peers");

/// The costs of a program.
struct Used {
    cpu_ms: f64,
    resident: f64,
    /// KiB written per reading.
    written: f64,
}

/// Prints the costs of the programs that record to a file: CPU and bytes per reading.
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

/// Prints CPU milliseconds per reading, and the ratio to `monitor watch`.
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

/// CPU milliseconds of process-exporter per scrape, with its default configuration.
pub fn exporter_ms() -> Result<f64> {
    let is_it = |it: &&Peer| it.name.starts_with("process-exporter by name");
    let peer = PEERS.iter().find(is_it).ok_or(std::io::ErrorKind::NotFound)?;
    Ok(peer.measure()?.cpu_ms)
}

impl Peer {
    fn measure(&self) -> Result<Used> {
        let _may_not_exist = std::fs::remove_dir_all(OUT);
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
            return Err(Error::other(format!("{} exited by itself", self.program)));
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
        // Process accounting is a setting of the whole node: do not change it.
        command.env("ATOPACCT", "");
        command
    }
}

/// Bytes of all written files.
fn length() -> f64 {
    let files = std::fs::read_dir(OUT).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|it| it.len() as f64).sum()
}

/// Waits for the first answer, and scrapes once more as the first reading.
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
