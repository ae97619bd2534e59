//! The part of stored requests that the kernel runs itself, at the event.
//!
//! In: all rules, each time one of them changes. Out: the rules that it refuses, with the reason,
//! and the values of counters. The runs of a rule come as `PlatformEvent::RuleRan`.

use monitor_backend::rule::insn::GaugeChange;
use monitor_event::action::{ExecutionPlace, KernelCounter, KernelCounterValue, Step};
use monitor_event::node_event::{EventKind, Predicate};
use monitor_event::right::{SessionId, Tool};
use monitor_event::{outcome::Refusal, trace::Trace};
use monitor_model::{Credentials, Identity, Ns};
use monitor_omis::RequestId;
use std::collections::{BTreeMap, BTreeSet};

/// A stored request: whose, and by which number.
pub type RuleKey = (SessionId, RequestId);

/// All that the kernel shall run, in the order of definition where two are for one event.
pub type CompiledRules = BTreeMap<RuleKey, CompiledRule>;

/// What the kernel does of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledRule {
    /// Which of those that had the number; later ones are higher.
    pub serial: u64,
    /// At what.
    pub event: EventKind,
    /// Whose.
    pub targets: RuleTargets,
    /// Its tool.
    pub tool: Tool,
    /// Only in processes that its user may look into as they meet the event.
    pub viewer: Option<Credentials>,
    /// Only if this holds.
    pub predicate: Option<Predicate>,
    /// What it does.
    pub steps: Vec<Step>,
    /// Whether it reports to user space afterwards, where the rest of the request runs.
    pub reports: bool,
    /// The tool for which the thread that hit the event is held until that is done.
    pub held_for: Option<Tool>,
    /// Runs in a second at which it is switched off.
    pub max_rate: u32,
}

/// Whose events a program is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleTargets {
    /// Events of no particular process.
    Any,
    /// Events of the processes that a session is attached to, and of their future children.
    Attached(SessionId, BTreeSet<Identity>),
    /// Those of these.
    Processes(BTreeSet<Identity>),
}

/// Runs rules. The default refuses all of them, and all is done in user space.
pub trait RuleRunner {
    /// Whether a kernel runs rules here.
    fn runs_rules(&self) -> bool {
        false
    }

    /// Runs these from now on, and no others; those that are new are off. Which it does not take.
    fn set_rules(&mut self, programs: &CompiledRules) -> Vec<(RuleKey, Refusal)> {
        let why = || Refusal::new(monitor_omis::Status::UNSUPPORTED, "no kernel runs rules here");
        programs.keys().map(|key| (*key, why())).collect()
    }

    /// Lets a program run, or not; from when on.
    fn switch_rule(&mut self, _: RuleKey, _: bool) -> Ns {
        Ns(0)
    }

    /// Whether it may run: programs switch each other.
    fn is_rule_on(&mut self, _: RuleKey) -> bool {
        false
    }

    /// How the threads that hit its event are held now, if the rule holds them.
    fn rule_hold(&mut self, _: RuleKey) -> Option<ExecutionPlace> {
        None
    }

    /// How often it has run since the kernel has it.
    fn rule_runs(&mut self, _: RuleKey) -> u64 {
        0
    }

    /// What the kernel has counted since the last reset.
    fn read_counter(&mut self, _: KernelCounter) -> KernelCounterValue {
        KernelCounterValue::default()
    }

    /// Changes the level of a number where the kernel has it. What it was before.
    fn change_gauge(&mut self, _: u64, _: GaugeChange) -> Option<i64> {
        None
    }

    /// The new records of the trace with this number.
    fn take_trace(&mut self, _: u64) -> Trace {
        Trace::default()
    }

    /// Resets the counters of a number; a gauge keeps its value.
    fn reset_counters(&mut self, _: u64) {}

    /// Frees the counters of a number.
    fn free_counters(&mut self, _: u64) {}
}
