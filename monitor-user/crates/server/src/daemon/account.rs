//! The service's own account: what it used, how late it was, and what it gives up to stay cheap.
//!
//! In: what each capability did, from the thread that reads, and samples as they are given. Out:
//! windows for the budget, numbers for `status`. The budget decides; this measures.

use monitor_model::histogram::{Histogram, Percentiles};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::want::Capability;
use monitor_protocol::status;
use monitor_protocol::status::Own;
use monitor_sampling::budget::{Budget, Change, Limits, Spent};
use monitor_sys::{clock, memory};
use std::collections::BTreeMap;

/// The account.
pub struct Account {
    limits: Limits,
    budget: Budget,
    started: Ns,
    processors: u64,
    /// When the window began, and our CPU time then.
    window: (Ns, Ns),
    /// What each capability had used by then.
    before: BTreeMap<Capability, Ns>,
    /// What each did until the last time it was asked.
    probes: Vec<Probe>,
    used: Option<f64>,
    late: Histogram,
    latest: Ns,
    samples: u64,
    readings: u64,
}

impl Account {
    /// Begins.
    pub fn new(limits: Limits) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Self {
            limits,
            budget: Budget::default(),
            started: clock::boot(),
            processors,
            window: (clock::boot(), clock::own_cpu()),
            before: BTreeMap::new(),
            probes: Vec::new(),
            used: None,
            late: Histogram::default(),
            latest: Ns(0),
            samples: 0,
            readings: 0,
        }
    }

    /// From now on this is the budget.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// A reading was made.
    pub fn read(&mut self) {
        self.readings += 1;
    }

    /// A sample was given so long after its tick.
    pub fn gave(&mut self, late: Ns) {
        self.samples += 1;
        self.late.note(late);
        self.latest = self.latest.max(late);
    }

    /// What the capabilities did until now. Ends the window, if it is long enough.
    pub fn take(&mut self, probes: Vec<Probe>, asked: &[Capability]) -> Option<Change> {
        self.probes = probes;
        let (now, cpu) = (clock::boot(), clock::own_cpu());
        let (began, cpu_then) = self.window;
        let length = now.since(began);
        if length < self.limits.window {
            return None;
        }
        let spent = Spent {
            machine: Ns(length.0.saturating_mul(self.processors)),
            own: cpu.since(cpu_then),
            hooks: self.hooks(),
        };
        self.window = (now, cpu);
        self.used = Some(spent.share());
        self.budget.judge(&self.limits, &spent, asked)
    }

    /// What the hooks of each capability used since the last time.
    fn hooks(&mut self) -> Vec<(Capability, Ns)> {
        let mut hooks = Vec::new();
        let mut now = BTreeMap::new();
        for probe in self.probes.iter().filter(|it| hooked(it)) {
            let total = run_time(probe);
            let before = self.before.get(&probe.capability).copied().unwrap_or_default();
            // What was let go of and attached again begins at nothing.
            let since = if total >= before { total.since(before) } else { total };
            hooks.push((probe.capability, since));
            now.insert(probe.capability, total);
        }
        self.before = now;
        hooks
    }

    /// What is given up, and the sentence that every sample carries.
    pub fn shed(&self) -> Vec<(Capability, String)> {
        let share = self.limits.share * 100.0;
        let used = self.used.unwrap_or_default() * 100.0;
        let text = |it: Capability| {
            let name = it.name();
            format!(
                "no {name}: given up to keep within the budget of {share} % of this machine; \
                 {used:.2} % were used"
            )
        };
        self.budget.shed().map(|it| (it, text(it))).collect()
    }

    /// The numbers that are known here.
    pub fn own(&self) -> Own {
        let [p50, p99] = Percentiles::default().of(&self.late, [50.0, 99.0]).unwrap_or_default();
        let hooked = self.probes.iter().filter(|it| hooked(it));
        let estimated = |it: &Probe| it.events > 0 && it.cost.is_some_and(|cost| cost.estimated);
        let lost = self.probes.iter().filter(|it| it.lost > 0);
        Own {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_ns: clock::boot().since(self.started).0,
            cpu_ns: clock::own_cpu().0,
            bpf_run_ns: hooked.clone().map(|it| run_time(it).0).sum(),
            bpf_run_estimated: hooked.clone().any(estimated),
            rss_bytes: memory::resident_bytes().unwrap_or(0),
            map_bytes: self.probes.iter().map(|it| it.map_bytes).sum(),
            readings: self.readings,
            samples: self.samples,
            // A percentile is the longest of its size, which nobody need have been.
            late_p50_ns: p50.min(self.latest).0,
            late_p99_ns: p99.min(self.latest).0,
            late_max_ns: self.latest.0,
            lost: lost.map(|it| (it.capability.name().into(), it.lost)).collect(),
            budget: status::Budget {
                share: self.limits.share,
                used: self.used,
                shed: self.budget.shed().map(|it| it.name().into()).collect(),
            },
            ..Own::default()
        }
    }
}

/// Whether its programs run in the time of others; a pass of the iterator is in ours.
fn hooked(probe: &Probe) -> bool {
    probe.capability != Capability::Snapshot && probe.cost.is_some()
}

fn run_time(probe: &Probe) -> Ns {
    let ns = probe.cost.map_or(0.0, |cost| cost.ns_per_event) * probe.events as f64;
    // A cost that is measured later changes what went before by less than it is known to.
    Ns(ns as u64)
}
