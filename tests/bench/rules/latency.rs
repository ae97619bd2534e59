//! Latency from an event to user space while every processor is busy: with a real-time reader
//! thread if permitted, and with an ordinary one.

use crate::rules::target::{self, probed};
use crate::verdict::{Bar, line};
use monitor_backend::rule::insn::{Insn, RecordOptions};
use monitor_backend::rule::{HookPoint, RecordReader, Rules as _};
use monitor_loader::rule::KernelRules;
use monitor_sys::{clock, priority};
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of events.
const EVENTS: usize = 3_000;
/// Pause between two events.
const PAUSE: Duration = Duration::from_micros(500);

/// Prints the percentiles of both.
pub fn run() {
    let (p50, p99, is_fifo) = percentiles(true);
    let how = if is_fifo { "SCHED_FIFO" } else { "not permitted to use SCHED_FIFO" };
    let bar = if is_fifo { Bar::AtMost(150.0) } else { Bar::None };
    line(&format!("event to a reader, {how}: p50"), p50, "us", Bar::None);
    line(&format!("event to a reader, {how}: p99"), p99, "us", bar);
    let (p50, p99, _) = percentiles(false);
    line("event to a reader, an ordinary thread: p50", p50, "us", Bar::None);
    line("event to a reader, an ordinary thread: p99", p99, "us", Bar::None);
}

/// Median and 99th percentile in microseconds, and whether the reader had real-time priority.
fn percentiles(wants_fifo: bool) -> (f64, f64, bool) {
    let mut rules = KernelRules::open().unwrap();
    let mut reader = rules.take_reader().unwrap();
    let urgent = RecordOptions { urgent: true, ..RecordOptions::default() };
    let hook = HookPoint::Entry(target::site(probed));
    let rule_program = target::own_program(hook, vec![Insn::Record(urgent)]);
    let id = rules.add(&rule_program).unwrap();
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
            let is_fifo = wants_fifo && priority::set_fifo().is_ok();
            (taken(&mut *reader), is_fifo)
        });
        for _ in 0..EVENTS {
            target::call(probed, 1);
            std::thread::sleep(PAUSE);
        }
        let (mut taken, is_fifo) = reading.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        taken.sort_by(f64::total_cmp);
        (taken[taken.len() / 2], taken[taken.len() * 99 / 100], is_fifo)
    })
}

/// Microseconds from each event until it was read.
fn taken(reader: &mut dyn RecordReader) -> Vec<f64> {
    let mut taken = Vec::with_capacity(EVENTS);
    while taken.len() < EVENTS {
        {
            let fd = reader.wake_fd().unwrap();
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
        }
        let _ = reader.read(EVENTS, &mut |record| {
            taken.push(clock::boot().since(record.at).0 as f64 / 1e3);
        });
    }
    taken
}
