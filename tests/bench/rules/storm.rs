//! As many records as one thread can generate: each is delivered or counted as lost.

use crate::measure::thread_ns;
use crate::rules::cost::record;
use crate::rules::target::{self, probed};
use crate::verdict::{Bar, line};
use monitor_backend::rule::{HookPoint, RecordReader, Rules as _};
use monitor_loader::rule::KernelRules;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Generated records.
const OFFERED: usize = 4_000_000;
/// Records read before the end is checked.
const BATCH: usize = 4096;

/// The result of the reader.
struct Read {
    records: u64,
    cpu_ns: f64,
}

/// Prints the rate of records, and how many were delivered and lost.
pub fn run() {
    let mut rules = KernelRules::open().unwrap();
    let mut reader = rules.take_reader().unwrap();
    let hook = HookPoint::Entry(target::site(probed));
    let rule_program = target::own_program(hook, record().to_vec());
    let id = rules.add(&rule_program).unwrap();
    rules.enable(id);
    let (is_over, memory) = (AtomicBool::new(false), resident());
    let (read, seconds) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&mut *reader, &is_over));
        let start = Instant::now();
        let making = scope.spawn(|| target::call(probed, OFFERED));
        making.join().unwrap();
        let seconds = start.elapsed().as_secs_f64();
        rules.disable(id);
        is_over.store(true, Ordering::Release);
        (reading.join().unwrap(), seconds)
    });
    let counts = rules.run_counts(id);
    let unaccounted = counts.runs.abs_diff(read.records + counts.lost_records);
    line("records generated per second", OFFERED as f64 / seconds / 1e6, "M", Bar::None);
    line("  delivered", read.records as f64 / counts.runs as f64 * 100.0, "%", Bar::None);
    line("  neither delivered nor counted as lost", unaccounted as f64, "", Bar::AtMost(0.0));
    line(
        "  runs that were not counted",
        (OFFERED as u64 - counts.runs) as f64,
        "",
        Bar::AtMost(0.0),
    );
    line("  the reader's processors", read.cpu_ns / 1e9 / seconds, "", Bar::AtMost(1.0));
    line("  the reader's memory", (resident() - memory) / 1e6, "MB", Bar::AtMost(1.0));
}

fn read_until(reader: &mut dyn RecordReader, is_over: &AtomicBool) -> Read {
    let (mut records, before) = (0, thread_ns());
    loop {
        let was_over = is_over.load(Ordering::Acquire);
        let mut sum = 0;
        let n_read = reader.read(BATCH, &mut |record_read| sum += record_read.regs[1]);
        assert_eq!(sum, 3 * n_read as u64, "each record holds the arguments of its call");
        records += n_read as u64;
        if n_read == 0 {
            if was_over {
                return Read { records, cpu_ns: thread_ns() - before };
            }
            wait(reader);
        }
    }
}

/// Waits until a quarter of the ring is used, at most 10 ms.
fn wait(reader: &dyn RecordReader) {
    let tick = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let fd = reader.wake_fd().unwrap();
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&tick));
}

fn resident() -> f64 {
    monitor_sys::memory::resident_bytes().unwrap() as f64
}
