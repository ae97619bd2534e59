//! CPU time counted at each switch, between two readings of the CPU clock of a process.
//!
//! In: a process that burns on every CPU and prints its CPU clock. Out: a failure where the
//! count is not between what the clock showed before and after.

use super::first::FirstProcess;
use super::workload::{Guarded, alive, processes};
use crate::deadline;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use std::time::{Duration, Instant};

/// Threads that burn, with the interpreter's lock or without, and say at each line read what the
/// kernel's clock of the whole process shows; they end with the input. That clock takes a thread
/// that runs on another CPU as of that CPU's last tick (`thread_group_cputime` of
/// kernel/sched/cputime.c), which an emulator may deliver late; a look at the thread's own clock
/// brings it up to the present first (`task_sched_runtime`).
pub const BURNER: &str = "
import hashlib, sys, threading, time
data = bytes(1 << 20)
def burn():
    while True: hashlib.sha256(data).digest()
all = [threading.Thread(target=burn, daemon=True) for _ in range(3)]
[t.start() for t in all]
for _ in sys.stdin:
    [time.clock_gettime(time.pthread_getcpuclockid(t.ident)) for t in all]
    print(time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), flush=True)
";

/// A burner, and what is known of the machine since its first reading.
pub struct Bounds {
    quiet: Quiet,
    stolen_before: u64,
    child: Guarded,
}

impl Bounds {
    /// Starts a burner.
    pub fn begin() -> Self {
        let child = Guarded::python(BURNER);
        Self { quiet: Quiet::new(), stolen_before: stolen(), child }
    }

    /// Compares that often.
    #[track_caller]
    pub fn check(&mut self, backend: &mut Ebpf, times: usize) {
        for _ in 0..times {
            deadline::until(|| {
                let before = self.clock();
                let sample = backend.read(&processes()).unwrap();
                let after = self.clock();
                let compared = self.quiet.holds();
                if compared {
                    let it = alive(&sample, self.child.pid()).unwrap();
                    let [exact, cpu] =
                        [F::ExactCpu, F::CpuTime].map(|field| it.row.get(field).unwrap());
                    println!("clock {before} to {after}: exact {exact}, iterator {cpu}");
                    let most = after + self.stolen();
                    assert!((before..=most).contains(&exact), "{exact} not in {before} to {most}");
                    let parts: u64 = it.on_cpus.iter().map(|(_, part)| part.0).sum();
                    assert_eq!(parts, exact);
                }
                compared.then_some(())
            });
        }
    }

    fn clock(&mut self) -> u64 {
        self.child.send_line("now");
        self.child.line().parse().unwrap()
    }

    /// What a hypervisor stole from a slice is in our count until the slice is over.
    fn stolen(&self) -> u64 {
        let grain = if self.stolen_before == 0 { 0 } else { GRAIN_OF_STOLEN_NS };
        grain + stolen() - self.stolen_before
    }
}

/// A switch away from the first process may be hidden, and the slice after it until it is over.
struct Quiet {
    first: FirstProcess,
    since: Instant,
}

impl Quiet {
    fn new() -> Self {
        Self { first: FirstProcess::watched(), since: Instant::now() }
    }

    /// Whether the first process did not run for longer than a slice takes.
    fn holds(&mut self) -> bool {
        if self.first.has_run() {
            *self = Self::new();
        }
        self.since.elapsed() > Duration::from_millis(20)
    }
}

/// What `/proc/stat` counts in: `USER_HZ`.
const GRAIN_OF_STOLEN_NS: u64 = 10_000_000;

/// Nanoseconds that a hypervisor has stolen from this machine.
fn stolen() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = text.split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * GRAIN_OF_STOLEN_NS
}
