//! CPU time of a thread that hits a probe: two functions, one with an empty BPF program and one
//! with a rule program, called in turn, so that changes of the machine affect both.

use crate::measure::{median, pin, thread_ns};
use crate::rules::target::{self, compared, probed};
use crate::verdict::{Bar, line};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use monitor_backend::rule::insn::{CellKind, Compare, Insn, RecordOptions, Reg, TimerScope, Width};
use monitor_backend::rule::{Children, HookPoint, RuleProgram, Rules as _, Site};
use monitor_loader::rule::KernelRules;

/// Hits per slice.
const HITS: usize = 20_000;
/// Pairs of slices.
const PAIRS: usize = 41;
/// Hits during which the thread must never wait.
const MANY: usize = 1_000_000;

const V0: Reg = Reg(0);
const V1: Reg = Reg(1);

/// Prints all ratios; returns the cost of a counter in nanoseconds.
pub fn run() -> f64 {
    pin();
    for function in [probed, compared] {
        if !target::begins_with_push(function) {
            println!("  a target function does not begin with push: the ratios below mean little");
        }
    }
    let mut bench = Bench::new();
    let empty = ratio(bench.empty(Both::Entry));
    line("an empty uprobe by another (noise)", empty.0, "x", Bar::None);
    line("  which costs", empty.1, "ns", Bar::None);
    let counter = bench.calls("counter", |it| vec![Insn::Count(it.sum)], Bar::AtMost(1.15));
    bench.calls("filter + count + add", filter_count_add, Bar::AtMost(1.25));
    bench.calls("a filter that matches nothing", filter_nothing, Bar::None);
    bench.calls("a record of two arguments", |_| record().to_vec(), Bar::None);
    bench.disabled();
    bench.timer();
    bench.waits();
    counter
}

fn filter_count_add(it: &Bench) -> Vec<Insn> {
    let argument = Insn::Argument(V0, 1, Width::I32);
    let filter = Insn::Filter(V0, Compare::Equal, 3);
    vec![argument, filter, Insn::Count(it.sum), Insn::Add(it.sum, V0)]
}

fn filter_nothing(it: &Bench) -> Vec<Insn> {
    vec![
        Insn::Argument(V0, 1, Width::I32),
        Insn::Filter(V0, Compare::Equal, 4),
        Insn::Count(it.sum),
    ]
}

/// Instructions that record two arguments.
pub fn record() -> [Insn; 3] {
    let argument = |to, n| Insn::Argument(to, n, Width::U64);
    [argument(V0, 0), argument(V1, 1), Insn::Record(RecordOptions::default())]
}

/// Whether the return is probed too.
#[derive(Clone, Copy)]
pub enum Both {
    /// Not.
    Entry,
    /// Also.
    EntryAndReturn,
}

struct Bench {
    rules: KernelRules,
    set: monitor_backend::rule::insn::ProcessSetId,
    sum: monitor_backend::rule::insn::Cell,
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

    fn add(&mut self, hook: HookPoint, insns: Vec<Insn>) -> monitor_backend::rule::ProgramId {
        let rule_program = RuleProgram::new(hook, Some(self.set), insns);
        let id = self.rules.add(&rule_program).unwrap();
        self.rules.enable(id);
        id
    }

    /// Measures a rule program at the entry; returns nanoseconds per hit.
    fn calls(&mut self, what: &str, insns: impl Fn(&Self) -> Vec<Insn>, bar: Bar) -> f64 {
        let insns = insns(self);
        let id = self.add(HookPoint::Entry(target::site(probed)), insns);
        let (ratio, hit_ns) = ratio(Empty::on(compared, Both::Entry));
        line(&format!("{what}, by an empty uprobe"), ratio, "x", bar);
        self.rules.remove(id);
        hit_ns
    }

    fn disabled(&mut self) {
        let insns = vec![Insn::Count(self.sum)];
        let id = self.add(HookPoint::Entry(target::site(probed)), insns);
        self.rules.disable(id);
        let (ratio, _) = ratio(Empty::on(compared, Both::Entry));
        line("a disabled rule program, by an empty uprobe", ratio, "x", Bar::None);
        self.rules.remove(id);
    }

    fn timer(&mut self) {
        let timer = self.rules.make_timer(TimerScope::Thread).unwrap();
        let times = self.rules.make_latency_histogram().unwrap();
        let site = target::site(probed);
        let begin = self.add(HookPoint::Entry(site.clone()), vec![Insn::StartTimer(timer, V0)]);
        let end = vec![Insn::StopTimer(V0, timer), Insn::LatencyHistogram(times, V0)];
        let end = self.add(HookPoint::Trampoline(site), end);
        let (ratio, pair_ns) = ratio(Empty::on(compared, Both::EntryAndReturn));
        let what = "a timer with a histogram, by an empty pair of probes";
        line(what, ratio, "x", Bar::AtMost(1.3));
        line("  which costs", pair_ns / ratio, "ns", Bar::None);
        self.rules.remove(begin);
        self.rules.remove(end);
    }

    fn waits(&mut self) {
        let insns = filter_count_add(self);
        let id = self.add(HookPoint::Entry(target::site(probed)), insns);
        let before = voluntary_switches();
        target::call(probed, MANY);
        let waited = voluntary_switches() - before;
        assert_eq!(self.rules.run_counts(id).runs, MANY as u64);
        let what = format!("voluntary context switches in {MANY} hits");
        line(&what, waited, "", Bar::AtMost(0.0));
        self.rules.remove(id);
    }
}

/// The median ratio of the two functions' times over pairs of slices, and nanoseconds per hit of
/// the first. `_probes` keeps its probes attached meanwhile.
fn ratio<T>(_probes: T) -> (f64, f64) {
    let slice = |function| {
        let before = thread_ns();
        target::call(function, HITS);
        (thread_ns() - before) / HITS as f64
    };
    let _ = (slice(probed), slice(compared));
    let pairs: Vec<_> = (0..PAIRS)
        .map(|pair| {
            // Every second pair in reverse order, against drift within a pair.
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

/// Empty programs of the same object, attached like a rule program.
pub struct Empty(#[expect(dead_code, reason = "keeps its probes attached")] aya::Ebpf);

impl Empty {
    fn on(function: target::Function, both: Both) -> Self {
        Self::at(&target::site(function), both)
    }

    /// Attaches them for all processes.
    pub fn at(site: &Site, both: Both) -> Self {
        let object =
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../monitor-ebpf/objects/rule.o"));
        let mut ebpf = aya::EbpfLoader::new().allow_unsupported_maps().load(object).unwrap();
        let programs: &[&str] = match both {
            Both::Entry => &["empty_call"],
            Both::EntryAndReturn => &["empty_call", "empty_return"],
        };
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
