//! CPU time of the thread that hits a probe: two functions, one with an empty program and one with
//! a list, called in turn, so that a change of the machine's mood hits both alike.

use crate::measure::median;
use crate::rules::target::{self, compared, probed};
use crate::verdict::{Bar, line};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use monitor_backend::rule::act::{Act, CellKind, Compare, Recorded, Value, Whose, Width};
use monitor_backend::rule::{Children, List, Place, Rules as _};
use monitor_backends::ebpf::rule::KernelRules;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Hits of a slice, and pairs of slices.
const HITS: usize = 20_000;
const PAIRS: usize = 41;
/// Hits in which nobody may wait.
const MANY: usize = 1_000_000;

const V0: Value = Value(0);
const V1: Value = Value(1);

/// CPU time of this thread.
pub fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Keeps this thread on the last processor.
pub fn pin() {
    let mut last = CpuSet::new();
    last.set(std::thread::available_parallelism().unwrap().get() - 1);
    sched_setaffinity(None, &last).unwrap();
}

/// Prints all ratios; returns what a counter costs, in nanoseconds.
pub fn run() -> f64 {
    pin();
    for function in [probed, compared] {
        if !target::begins_with_push(function) {
            println!("  a target does not begin with push here: the ratios below mean little");
        }
    }
    let mut bench = Bench::new();
    let empty = ratio(bench.empty(Both::Entry));
    line("an empty uprobe by another (noise)", empty.0, "x", Bar::None);
    line("  which costs", empty.1, "ns", Bar::None);
    let counter = bench.calls("counter", |it| vec![Act::Count(it.sum)], Bar::AtMost(1.15));
    bench.calls("filter + count + add", filter_count_add, Bar::AtMost(1.25));
    bench.calls("a filter that lets nothing through", filter_nothing, Bar::None);
    bench.calls("a record of two arguments", |_| record().to_vec(), Bar::None);
    bench.disabled();
    bench.timer();
    bench.waits();
    counter
}

fn filter_count_add(it: &Bench) -> Vec<Act> {
    let argument = Act::Argument(V0, 1, Width::I32);
    let filter = Act::Filter(V0, Compare::Equal, 3);
    vec![argument, filter, Act::Count(it.sum), Act::Add(it.sum, V0)]
}

fn filter_nothing(it: &Bench) -> Vec<Act> {
    vec![Act::Argument(V0, 1, Width::I32), Act::Filter(V0, Compare::Equal, 4), Act::Count(it.sum)]
}

/// What tells of two arguments.
pub fn record() -> [Act; 3] {
    let argument = |to, n| Act::Argument(to, n, Width::Whole);
    [argument(V0, 0), argument(V1, 1), Act::Record(Recorded::default())]
}

/// Whether the return is probed too.
#[derive(Clone, Copy)]
enum Both {
    Entry,
    EntryAndReturn,
}

struct Bench {
    rules: KernelRules,
    set: monitor_backend::rule::act::Set,
    sum: monitor_backend::rule::act::Cell,
}

impl Bench {
    fn new() -> Self {
        let mut rules = KernelRules::open().unwrap();
        let set = rules.make_set(Children::NotIncluded).unwrap();
        rules.include(set, monitor_model::id::Pid(std::process::id())).unwrap();
        let sum = rules.make_cell(CellKind::Sum).unwrap();
        Self { rules, set, sum }
    }

    /// Two empty programs.
    fn empty(&self, both: Both) -> [Empty; 2] {
        [Empty::on(probed, both), Empty::on(compared, both)]
    }

    fn add(&mut self, place: Place, acts: Vec<Act>) -> monitor_backend::rule::ListId {
        let list = List::new(place, Some(self.set), acts);
        let id = self.rules.add(&list).unwrap();
        self.rules.enable(id);
        id
    }

    /// One list at the entry; returns nanoseconds of a hit.
    fn calls(&mut self, what: &str, acts: impl Fn(&Self) -> Vec<Act>, bar: Bar) -> f64 {
        let acts = acts(self);
        let id = self.add(Place::Entry(target::site(probed)), acts);
        let (ratio, hit_ns) = ratio(Empty::on(compared, Both::Entry));
        line(&format!("{what}, by an empty uprobe"), ratio, "x", bar);
        self.rules.remove(id);
        hit_ns
    }

    fn disabled(&mut self) {
        let acts = vec![Act::Count(self.sum)];
        let id = self.add(Place::Entry(target::site(probed)), acts);
        self.rules.disable(id);
        let (ratio, _) = ratio(Empty::on(compared, Both::Entry));
        line("a disabled list, by an empty uprobe", ratio, "x", Bar::None);
        self.rules.remove(id);
    }

    fn timer(&mut self) {
        let timer = self.rules.make_timer(Whose::Thread).unwrap();
        let times = self.rules.make_histogram().unwrap();
        let site = target::site(probed);
        let begin = self.add(Place::Entry(site.clone()), vec![Act::Begin(timer, V0)]);
        let end = vec![Act::End(V0, timer), Act::Histogram(times, V0)];
        let end = self.add(Place::Return(site), end);
        let (ratio, pair_ns) = ratio(Empty::on(compared, Both::EntryAndReturn));
        let what = "a timer with a histogram, by an empty pair of probes";
        line(what, ratio, "x", Bar::AtMost(1.3));
        line("  which costs", pair_ns / ratio, "ns", Bar::None);
        self.rules.remove(begin);
        self.rules.remove(end);
    }

    fn waits(&mut self) {
        let acts = filter_count_add(self);
        let id = self.add(Place::Entry(target::site(probed)), acts);
        let before = voluntary_switches();
        target::call(probed, MANY);
        let waited = voluntary_switches() - before;
        assert_eq!(self.rules.tally(id).runs, MANY as u64);
        let what = format!("voluntary context switches in {MANY} hits");
        line(&what, waited, "", Bar::AtMost(0.0));
        self.rules.remove(id);
    }
}

/// Median over pairs of slices of one function's time over the other's, and nanoseconds of a hit
/// of the first. What is held keeps its probes as long.
fn ratio<T>(_probes: T) -> (f64, f64) {
    let slice = |function| {
        let before = thread_ns();
        target::call(function, HITS);
        (thread_ns() - before) / HITS as f64
    };
    let _ = (slice(probed), slice(compared));
    let pairs: Vec<_> = (0..PAIRS)
        .map(|pair| {
            // Every second pair the other way round, against drift within a pair.
            if pair % 2 == 0 {
                let first = slice(probed);
                (first, slice(compared))
            } else {
                let second = slice(compared);
                (slice(probed), second)
            }
        })
        .collect();
    let ratios = pairs.iter().map(|(first, second)| first / second).collect();
    (median(ratios), median(pairs.into_iter().map(|(first, _)| first).collect()))
}

/// Programs of the same object that do nothing, attached as a list is.
struct Empty(#[expect(dead_code, reason = "held for its probes")] aya::Ebpf);

impl Empty {
    fn on(function: target::Function, both: Both) -> Self {
        let object =
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../monitor-ebpf/objects/rule.o"));
        let mut ebpf = aya::EbpfLoader::new().allow_unsupported_maps().load(object).unwrap();
        let programs: &[&str] = match both {
            Both::Entry => &["empty_call"],
            Both::EntryAndReturn => &["empty_call", "empty_return"],
        };
        let site = target::site(function);
        for name in programs {
            let program: &mut UProbe = ebpf.program_mut(name).unwrap().try_into().unwrap();
            program.load().unwrap();
            let at = UProbeAttachLocation::AbsoluteOffset(site.offset);
            let _ = program.attach(at, &site.path, UProbeScope::AllProcesses).unwrap();
        }
        Self(ebpf)
    }
}

fn voluntary_switches() -> f64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
