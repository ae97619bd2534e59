//! The cost of the hooks for a workload that only switches: two threads on one processor exchange a
//! byte through pipes. Runs with and without hooks in turn, so that changes of the machine affect
//! both.

use crate::measure::median;
use crate::verdict::{Bar, line};
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::probe::{Health, Probe};
use monitor_model::read_spec::Capability;
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Exchanges per slice: some tens of milliseconds.
const EXCHANGES: usize = 20_000;
/// Pairs of slices.
const PAIRS: usize = 41;

/// Prints the ratios for the default capabilities and for further ones.
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

/// Measures a set. If a capability cannot be attached, it is named and the limit is not applied.
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
        // Every second pair in reverse order, against drift within a pair.
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

/// A thread on the same processor that answers each byte with a byte.
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
        for _ in 0..EXCHANGES {
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
