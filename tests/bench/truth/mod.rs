//! Conservation under churn: what processes used, ended ones included, is what the node used.
//!
//! CPU time is compared with what the scheduler accounts to the root of the controller `cpuacct`,
//! less processes that the kernel hides from BPF programs; block bytes with `/proc/diskstats`; TCP
//! payload that was written with what arrived, and with what iperf3 itself discards. Thirty seconds
//! each, `MONITOR_BENCH_SECONDS` overrides.

mod account;
mod workload;

use self::account::{disk_bytes, hidden_ns, usage_file, usage_ns};
use self::workload::Workload;
use crate::verdict::{Bar, line};
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::id::Identity;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::sample::{Process, Sample};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SECONDS: u64 = 30;
const EVERY: Duration = Duration::from_millis(200);
/// Final records that have not come by then never come.
const SETTLED: Duration = Duration::from_millis(1500);

/// Prints the residuals of every workload.
pub fn run() {
    let Some(file) = usage_file() else {
        println!("  skipped: no controller cpuacct of version 1 is mounted");
        return;
    };
    let seconds = std::env::var("MONITOR_BENCH_SECONDS").ok().and_then(|it| it.parse().ok());
    let seconds = seconds.unwrap_or(SECONDS);
    for workload in workload::ALL {
        match workload.lacks() {
            Some(program) => println!("  {}: skipped, {program} is not installed", workload.name),
            None => {
                let used = Used::by(workload, seconds, &file);
                used.print(workload);
            }
        }
    }
}

/// Counters that are added up.
const SUMMED: [F; 8] = [
    F::CpuTime,
    F::ExactCpu,
    F::BlockReadBytes,
    F::BlockWrittenBytes,
    F::TcpSent,
    F::Tcp6Sent,
    F::TcpReceived,
    F::Tcp6Received,
];

type Sums = [u64; SUMMED.len()];

fn sums(process: &Process) -> Sums {
    SUMMED.map(|field| process.row.get(field).unwrap_or(0))
}

/// What processes used since the first sample.
#[derive(Default)]
struct Ledger {
    /// Of every process since the first sample.
    last: HashMap<Identity, Sums>,
    used: Sums,
    /// The part of the workload's ends.
    ends: Sums,
    marked: u64,
}

impl Ledger {
    fn add(&mut self, sample: &Sample, workload: &Workload) {
        let is_first = self.last.is_empty();
        for process in &sample.processes {
            let sums = sums(process);
            // One whose record was lost may be missing from the sample before.
            let before = self.last.insert(process.id, sums).unwrap_or_default();
            self.marked += process.row.get(F::Approximate).unwrap_or(0);
            if is_first {
                continue;
            }
            let is_end = workload.ends.iter().any(|name| process.comm() == *name);
            for (at, (now, before)) in sums.into_iter().zip(before).enumerate() {
                let grown = now.saturating_sub(before);
                self.used[at] += grown;
                self.ends[at] += if is_end { grown } else { 0 };
            }
        }
    }
}

/// What the kernel accounted, around one reading.
struct Reading {
    /// Before and after it.
    usage_ns: [u64; 2],
    hidden_ns: u64,
    disks: [u64; 2],
    error_ns: u64,
}

/// One workload, measured.
struct Used {
    ledger: Ledger,
    first: Reading,
    last: Reading,
    lost: u64,
    unread_bytes: u64,
}

impl Used {
    fn by(workload: &Workload, seconds: u64, file: &PathBuf) -> Self {
        let mut capabilities = vec![Capability::Lifetimes, Capability::Block, Capability::Tcp];
        if workload.threads {
            capabilities.push(Capability::ExactCpu);
        }
        let mut backend = Ebpf::open(&capabilities, 0).unwrap();
        let mut ledger = Ledger::default();
        let mut lost = 0;
        let mut read = |ledger: &mut Ledger| {
            let before = usage_ns(file);
            let want = ReadSpec { processes: true, ..ReadSpec::default() };
            let sample = backend.read(&want).unwrap();
            let after = usage_ns(file);
            ledger.add(&sample, workload);
            lost = sample.lost.iter().map(|it| it.ring_full + it.table_full).sum();
            let shown: HashSet<_> = sample.processes.iter().map(|it| it.id.pid.0).collect();
            let processors = std::thread::available_parallelism().map_or(1, |it| it.get() as u64);
            Reading {
                usage_ns: [before, after],
                hidden_ns: hidden_ns(&shown),
                disks: disk_bytes(),
                error_ns: processors * sample.time_error.0,
            }
        };
        let first = read(&mut ledger);
        let begun = Instant::now();
        let running = workload.start(seconds);
        while begun.elapsed() < Duration::from_secs(seconds) {
            sleep(EVERY);
            let _ = read(&mut ledger);
        }
        let unread_bytes = running.unread_bytes();
        drop(running);
        let ended = Instant::now();
        let mut last = read(&mut ledger);
        while ended.elapsed() < SETTLED {
            sleep(EVERY);
            last = read(&mut ledger);
        }
        Self { ledger, first, last, lost, unread_bytes }
    }

    fn print(&self, workload: &Workload) {
        let Self { ledger, first, last, .. } = self;
        let usage = middle(last.usage_ns) - middle(first.usage_ns);
        let hidden = last.hidden_ns.saturating_sub(first.hidden_ns);
        let percent = |ns: f64| ns / usage as f64 * 100.0;
        let [cpu, exact, read, written, ..] = ledger.used;
        let name = workload.name;
        println!("  {name}: {:.2} s of CPU time in cpuacct.usage", usage as f64 / 1e9);
        let residual = |used: u64| percent(usage as f64 - used as f64 - hidden as f64);
        let error = percent((first.error_ns + last.error_ns) as f64);
        let bar = |most: f64| Bar::Between(-error, most);
        let most = if workload.threads { 1.0 } else { 0.1 };
        line(&format!("{name}, CPU of no process"), residual(cpu), "%", bar(most));
        if workload.threads {
            line(&format!("{name}, the same by --exact-cpu"), residual(exact), "%", bar(0.1));
        }
        line(&format!("{name}, hidden processes"), percent(hidden as f64), "%", Bar::None);
        line(&format!("{name}, stated error of the readings"), error, "%", Bar::None);
        line(&format!("{name}, records approximated"), ledger.marked as f64, "", Bar::None);
        line(&format!("{name}, records lost"), self.lost as f64, "", Bar::None);
        let disks = [0, 1].map(|at| last.disks[at] - first.disks[at]);
        for (what, disk, processes) in [("read", disks[0], read), ("written", disks[1], written)] {
            let apart = (disk as f64 - processes as f64) / 1e6;
            let what = format!("{name}, {what} by no process, of {:.1} MB", disk as f64 / 1e6);
            line(&what, apart, "MB", Bar::None);
        }
        if !workload.ends.is_empty() {
            let [.., sent, sent6, received, received6] = ledger.ends;
            let apart = (sent + sent6) as f64 - (received + received6) as f64;
            let what =
                format!("{name}, TCP payload of no receiver, of {:.1} MB", sent as f64 / 1e6);
            line(&what, apart, "bytes", Bar::Between(0.0, self.unread_bytes as f64));
        }
    }
}

const fn middle([before, after]: [u64; 2]) -> u64 {
    u64::midpoint(before, after)
}
