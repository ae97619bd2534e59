//! The daemon's own usage: CPU time, delay of samples, and capabilities given up for the budget.
//!
//! In: counts of the probes from the sampler thread, and each sample as it is sent. Out: windows
//! for the budget, numbers for `status`. This measures; the budget decides.

use super::cpu_parts::SamplerCpu;
use monitor_model::{Capability, Histogram, Ns, Percentiles, Probe};
use monitor_monitors::ReadingBudget;
use monitor_protocol::status::{self, DaemonStatus};
use monitor_sampling::budget::{
    Budget, BudgetChange, BudgetLimits, BudgetUsage, RequestedCapabilities, Sheddable,
};
use monitor_sys::{clock, fsuid, memory};
use std::collections::BTreeMap;

/// How long after a client has left freed memory is returned.
const TRIM_DELAY: Ns = Ns(2_000_000_000);

/// The daemon's usage since its start, and in the current window.
pub struct SelfUsage {
    limits: BudgetLimits,
    budget: Budget,
    started: Ns,
    processors: u64,
    /// The start of the window, and the daemon's CPU time then.
    window: (Ns, Ns),
    /// The run time of each capability at the last update.
    run_times: BTreeMap<Capability, Ns>,
    /// The probes at the last update.
    probes: Vec<Probe>,
    used_share: Option<f64>,
    /// CPU time of pushes at the start of the window.
    pushes_then: Ns,
    /// CPU time by what it was used for, at the last update.
    cpu_parts: BTreeMap<String, u64>,
    delays: Histogram,
    max_delay: Ns,
    samples: u64,
    readings: u64,
}

impl SelfUsage {
    /// Starts the first window.
    pub fn new(limits: BudgetLimits) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Self {
            limits,
            budget: Budget::default(),
            started: clock::boot(),
            processors,
            window: (clock::boot(), clock::process_cpu()),
            run_times: BTreeMap::new(),
            probes: Vec::new(),
            used_share: None,
            pushes_then: Ns(0),
            cpu_parts: SamplerCpu::default().parts(clock::process_cpu()),
            delays: Histogram::default(),
            max_delay: Ns(0),
            samples: 0,
            readings: 0,
        }
    }

    /// Sets the budget.
    pub fn set_limits(&mut self, limits: BudgetLimits) {
        self.limits = limits;
    }

    /// Counts a reading.
    pub fn count_reading(&mut self) {
        self.readings += 1;
    }

    /// Counts a sample, and how long after its tick it was sent.
    pub fn count_sample(&mut self, delay: Ns) {
        self.samples += 1;
        self.delays.record(delay);
        self.max_delay = self.max_delay.max(delay);
    }

    /// Takes the counts of the probes and the CPU time of the sampler thread. Ends the window if it
    /// is long enough, and returns what the budget decided.
    pub fn update(
        &mut self,
        (probes, sampler): (Vec<Probe>, SamplerCpu),
        requested: RequestedCapabilities<'_>,
    ) -> Option<BudgetChange> {
        self.probes = probes;
        let (now, cpu) = (clock::boot(), clock::process_cpu());
        self.cpu_parts = sampler.parts(cpu);
        let (began, cpu_then) = self.window;
        let length = now.since(began);
        if length < self.limits.window {
            return None;
        }
        let spent = BudgetUsage {
            machine: Ns(length.0.saturating_mul(self.processors)),
            own: cpu.since(cpu_then),
            hooks: self.hook_times(),
            pushes: sampler.pushes.since(self.pushes_then),
        };
        self.pushes_then = sampler.pushes;
        self.window = (now, cpu);
        self.used_share = Some(spent.share());
        self.budget.judge(&self.limits, &spent, requested)
    }

    /// The run time of the hooks of each capability since the last update.
    fn hook_times(&mut self) -> Vec<(Capability, Ns)> {
        let mut hooks = Vec::new();
        let mut now = BTreeMap::new();
        for probe in self.probes.iter().filter(|it| has_hooks(it)) {
            let total = run_time(probe);
            let before = self.run_times.get(&probe.capability).copied().unwrap_or_default();
            // A capability that was detached and attached again starts from zero.
            let since = if total >= before { total.since(before) } else { total };
            hooks.push((probe.capability, since));
            now.insert(probe.capability, total);
        }
        self.run_times = now;
        hooks
    }

    /// The capabilities given up, each with the note that samples carry.
    pub fn shed(&self) -> Vec<(Capability, String)> {
        let share = self.limits.share * 100.0;
        let used = self.used_share.unwrap_or_default() * 100.0;
        let text = |it: Capability| {
            let name = it.name();
            format!(
                "no {name}: given up to keep within the budget of {share} % of this machine; \
                 {used:.2} % were used"
            )
        };
        let shed = self.budget.shed().filter_map(|it| match it {
            Sheddable::Capability(it) => Some((it, text(it))),
            Sheddable::Pushes => None,
        });
        shed.collect()
    }

    /// Whether most pushes are given up.
    pub fn sheds_pushes(&self) -> bool {
        self.budget.shed().any(|it| it == Sheddable::Pushes)
    }

    /// The numbers that are measured here.
    pub fn status(&self) -> DaemonStatus {
        let [p50, p99] =
            Percentiles::default().compute(&self.delays, [50.0, 99.0]).unwrap_or_default();
        let hooked = self.probes.iter().filter(|it| has_hooks(it));
        let estimated = |it: &Probe| {
            it.events.is_some_and(|events| events > 0) && it.cost.is_some_and(|cost| cost.estimated)
        };
        let lost = self.probes.iter().filter(|it| it.lost > 0);
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_ns: clock::boot().since(self.started).0,
            cpu_ns: clock::process_cpu().0,
            cpu_parts: self.cpu_parts.clone(),
            bpf_run_ns: hooked.clone().map(|it| run_time(it).0).sum(),
            bpf_run_estimated: hooked.clone().any(estimated),
            rss_bytes: memory::resident_bytes().unwrap_or(0),
            map_bytes: self.probes.iter().map(|it| it.map_bytes).sum(),
            readings: self.readings,
            samples: self.samples,
            // A percentile is the upper end of its bucket, which may exceed the maximum.
            late_p50_ns: p50.min(self.max_delay).0,
            late_p99_ns: p99.min(self.max_delay).0,
            late_max_ns: self.max_delay.0,
            lost: lost.map(|it| (it.capability.name().into(), it.lost)).collect(),
            budget: status::BudgetStatus {
                share: self.limits.share,
                used: self.used_share,
                shed: self.budget.shed().map(|it| it.name().into()).collect(),
            },
            ..DaemonStatus::default()
        }
    }
}

/// What of the budget is for readings that users ask for: all of it.
pub fn reading_budget(limits: &BudgetLimits) -> ReadingBudget {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    ReadingBudget {
        share: limits.share,
        per_second: Ns((limits.share * f64::from(processors) * 1e9) as u64),
        window: limits.window,
        own_uid: fsuid::effective_uid(),
    }
}

/// When freed memory is returned to the kernel: a while after clients have left.
#[derive(Default)]
pub struct HeapTrim {
    due: Option<Ns>,
    /// Whether a client has left since that was set: what it held may not be free by then.
    again: bool,
}

impl HeapTrim {
    /// Checks in a while.
    pub fn schedule(&mut self) {
        self.again = self.due.is_some();
        self.due.get_or_insert(Ns(clock::boot().0 + TRIM_DELAY.0));
    }

    /// When to check.
    pub const fn due(&self) -> Option<Ns> {
        self.due
    }

    /// Returns freed memory; at most once in [`TRIM_DELAY`].
    pub fn trim(&mut self) {
        self.due = None;
        if std::mem::take(&mut self.again) {
            self.schedule();
        }
        memory::trim_heap();
    }
}

/// Whether its programs run in the time of other processes. The iterator runs in the daemon's own.
fn has_hooks(probe: &Probe) -> bool {
    probe.capability != Capability::Snapshot && probe.cost.is_some()
}

fn run_time(probe: &Probe) -> Ns {
    let ns = probe.cost.map_or(0.0, |cost| cost.ns_per_event) * probe.events.unwrap_or(0) as f64;
    // A cost that is measured later changes the earlier total by less than its accuracy.
    Ns(ns as u64)
}
