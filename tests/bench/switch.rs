//! What the hooks cost a workload that does nothing but switch: two threads on one processor that
//! hand a byte to and fro through pipes. With and without, in turn, so that a change of the
//! machine's mood hits both alike.

use crate::measure::median;
use crate::verdict::{Bar, line};
use monitor_backend::Backend as _;
use monitor_backends::ebpf::Ebpf;
use monitor_model::probe::{Health, Probe};
use monitor_model::want::Capability;
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Hand-overs in one slice: some tens of milliseconds.
const HANDOVERS: usize = 20_000;
/// Pairs of slices.
const PAIRS: usize = 41;

/// The default set, and run-queue latency on top of it.
pub fn run() {
    let default = [Capability::Snapshot, Capability::Lifetimes, Capability::Tcp];
    let with_runqlat = [&default[..], &[Capability::RunQueue]].concat();
    let block_and_net = [&default[..], &[Capability::Block, Capability::Sockets]].concat();
    let exact = [&default[..], &[Capability::ExactCpu]].concat();
    line("nothing attached (noise)", ratio(|| None), "x", Bar::None);
    hooked("default set", &default, Bar::AtMost(1.02));
    hooked("with --runqlat", &with_runqlat, Bar::AtMost(1.06));
    hooked("with --disk --net", &block_and_net, Bar::None);
    hooked("with --exact-cpu", &exact, Bar::None);
}

/// One set. What could not be attached is named, and nothing is judged without it.
fn hooked(what: &str, set: &[Capability], bar: Bar) {
    let probes = Ebpf::open(set, 0).unwrap().probes();
    let lacks = |it: &&Probe| set.contains(&it.capability) && it.health != Health::Active;
    let lacking: Vec<_> = probes.iter().filter(lacks).map(|it| it.capability.name()).collect();
    let taken = ratio(|| Some(Ebpf::open(set, 0).unwrap()));
    if lacking.is_empty() {
        line(what, taken, "x", bar);
    } else {
        line(&format!("{what}, but not {}", lacking.join(", ")), taken, "x", Bar::None);
    }
}

/// Median over pairs of slices of time with the hooks over time without.
fn ratio(attach: impl Fn() -> Option<Ebpf>) -> f64 {
    let pinned = Pair::start();
    let _ = pinned.slice();
    let ratios = (0..PAIRS).map(|pair| {
        // Every second pair the other way round, against drift within a pair.
        let hooked = |pinned: &Pair| {
            let _hooks = attach();
            pinned.slice()
        };
        let (with, without) = if pair % 2 == 0 {
            let without = pinned.slice();
            (hooked(&pinned), without)
        } else {
            (hooked(&pinned), pinned.slice())
        };
        with / without
    });
    median(ratios.collect())
}

/// A thread that answers each byte with a byte, on the same processor as this one.
struct Pair {
    there: OwnedFd,
    back: OwnedFd,
}

impl Pair {
    fn start() -> Self {
        let (answer_from, there) = pipe().unwrap();
        let (back, answer_to) = pipe().unwrap();
        pin();
        std::thread::spawn(move || {
            pin();
            let mut byte = [0];
            while read(&answer_from, &mut byte) == Ok(1) && write(&answer_to, &byte) == Ok(1) {}
        });
        Self { there, back }
    }

    /// Nanoseconds of one slice.
    fn slice(&self) -> f64 {
        let mut byte = [0];
        let start = Instant::now();
        for _ in 0..HANDOVERS {
            write(&self.there, &byte).unwrap();
            read(&self.back, &mut byte).unwrap();
        }
        start.elapsed().as_nanos() as f64
    }
}

fn pin() {
    let mut last = CpuSet::new();
    last.set(std::thread::available_parallelism().unwrap().get() - 1);
    sched_setaffinity(None, &last).unwrap();
}
