//! As many records as one thread can make: each is delivered or counted as lost.

use crate::rules::cost::{record, thread_ns};
use crate::rules::target::{self, probed};
use crate::verdict::{Bar, line};
use monitor_backend::rule::{List, Place, Reader, Rules as _};
use monitor_backends::ebpf::rule::KernelRules;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Records that are offered.
const OFFERED: usize = 4_000_000;
/// Records that are taken before it is looked whether the others have ended.
const BATCH: usize = 4096;

/// What the reader has come to.
struct Read {
    records: u64,
    cpu_ns: f64,
}

/// Prints how many were offered a second, and what became of them.
pub fn run() {
    let mut rules = KernelRules::open().unwrap();
    let mut reader = rules.take_reader().unwrap();
    let place = Place::Entry(target::site(probed));
    let list = List::new(place, None, record().to_vec());
    let id = rules.add(&list).unwrap();
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
    let tally = rules.tally(id);
    let unaccounted = tally.runs.abs_diff(read.records + tally.lost_records);
    line("records offered a second", OFFERED as f64 / seconds / 1e6, "M", Bar::None);
    line("  delivered", read.records as f64 / tally.runs as f64 * 100.0, "%", Bar::None);
    line("  neither delivered nor counted as lost", unaccounted as f64, "", Bar::AtMost(0.0));
    line(
        "  runs that were not counted",
        (OFFERED as u64 - tally.runs) as f64,
        "",
        Bar::AtMost(0.0),
    );
    line("  the reader's processors", read.cpu_ns / 1e9 / seconds, "", Bar::AtMost(1.0));
    line("  the reader's memory", (resident() - memory) / 1e6, "MB", Bar::AtMost(1.0));
}

fn read_until(reader: &mut dyn Reader, is_over: &AtomicBool) -> Read {
    let (mut records, before) = (0, thread_ns());
    loop {
        let was_over = is_over.load(Ordering::Acquire);
        let mut sum = 0;
        let n_read = reader.read(BATCH, &mut |told| sum += told.values[1]);
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

/// Until a quarter of the ring is used, or a tick is over.
fn wait(reader: &dyn Reader) {
    let tick = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let fd = reader.wake().unwrap();
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&tick));
}

fn resident() -> f64 {
    monitor_sys::memory::resident_bytes().unwrap() as f64
}
