//! From an event to user space, while every processor is busy: the reader runs before all others
//! where it may, and the same without that is printed beside it.

use crate::rules::target::{self, probed};
use crate::verdict::{Bar, line};
use monitor_backend::rule::act::{Act, Recorded};
use monitor_backend::rule::{List, Place, Reader, Rules as _};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_sys::{clock, priority};
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Events, and the pause between two.
const EVENTS: usize = 3_000;
const PAUSE: Duration = Duration::from_micros(500);

/// Prints percentiles of both.
pub fn run() {
    let (half, most, is_first) = percentiles(true);
    let how = if is_first { "SCHED_FIFO" } else { "not allowed to run first" };
    let bar = if is_first { Bar::AtMost(150.0) } else { Bar::None };
    line(&format!("event to a reader, {how}: half"), half, "us", Bar::None);
    line(&format!("event to a reader, {how}: 99 %"), most, "us", bar);
    let (half, most, _) = percentiles(false);
    line("event to a reader, an ordinary thread: half", half, "us", Bar::None);
    line("event to a reader, an ordinary thread: 99 %", most, "us", Bar::None);
}

/// Microseconds of half and of 99 in 100, and whether the reader ran first.
fn percentiles(runs_first: bool) -> (f64, f64, bool) {
    let mut rules = KernelRules::open().unwrap();
    let mut reader = rules.take_reader().unwrap();
    let urgent = Recorded { urgent: true, ..Recorded::default() };
    let place = Place::Entry(target::site(probed));
    let list = List::new(place, None, vec![Act::Record(urgent)]);
    let id = rules.add(&list).unwrap();
    rules.enable(id);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            let _ = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let reading = scope.spawn(|| {
            let is_first = runs_first && priority::run_first().is_ok();
            (taken(&mut *reader), is_first)
        });
        for _ in 0..EVENTS {
            target::call(probed, 1);
            std::thread::sleep(PAUSE);
        }
        let (mut taken, is_first) = reading.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        taken.sort_by(f64::total_cmp);
        (taken[taken.len() / 2], taken[taken.len() * 99 / 100], is_first)
    })
}

/// Microseconds from each event until it was read.
fn taken(reader: &mut dyn Reader) -> Vec<f64> {
    let mut taken = Vec::with_capacity(EVENTS);
    while taken.len() < EVENTS {
        {
            let fd = reader.wake().unwrap();
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
        }
        let _ = reader.read(EVENTS, &mut |told| {
            taken.push(clock::boot().since(told.at).0 as f64 / 1e3);
        });
    }
    taken
}
