//! What of stored requests the kernel runs itself, at the event.
//!
//! In: programs, all of them each time something about them changes. Out: which it does not take,
//! and why; what it has counted. What a program tells comes as `Happening::Ran`.

use monitor_backend::rule::insn::GaugeChange;
use monitor_event::action::ExecutionPlace;
use monitor_event::action::{KernelCounter, KernelCounterValue, Step};
use monitor_event::node_event::{EventKind, Predicate};
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::trace::Trace;
use monitor_model::credentials::Credentials;
use monitor_model::id::{Identity, Ns};
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
    /// Only in processes that its user may look into as they meet the event.
    pub viewer: Option<Credentials>,
    /// Only if this holds.
    pub predicate: Option<Predicate>,
    /// What it does.
    pub steps: Vec<Step>,
    /// Whether it tells user space afterwards, where the rest is done.
    pub reports: bool,
    /// For whom who met the event is held until that is done.
    pub held_for: Option<Tool>,
    /// Runs in a second at which it is switched off.
    pub max_rate: u32,
}

/// Whose events a program is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleTargets {
    /// Nobody's in particular.
    Any,
    /// Those of whom a session observes, and of the children that these will have.
    Attached(SessionId, BTreeSet<Identity>),
    /// Those of these.
    Processes(BTreeSet<Identity>),
}

/// Who runs programs. Who does not, takes none, and all is done in user space.
pub trait RuleRunner {
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

    /// How who meets its event is held now, if a program holds anybody.
    fn rule_hold(&mut self, _: RuleKey) -> Option<ExecutionPlace> {
        None
    }

    /// How often it has run since the kernel has it.
    fn rule_runs(&mut self, _: RuleKey) -> u64 {
        0
    }

    /// What the kernel has counted in a meter since it was forgotten last.
    fn read_counter(&mut self, _: KernelCounter) -> KernelCounterValue {
        KernelCounterValue::default()
    }

    /// Changes the level of a number where the kernel has it. What it was before.
    fn change_gauge(&mut self, _: u64, _: GaugeChange) -> Option<i64> {
        None
    }

    /// What the kernel has recorded in the trace of a number since this was asked last.
    fn take_trace(&mut self, _: u64) -> Trace {
        Trace::default()
    }

    /// Forgets what was counted in the meters of a number; a level stays what it is.
    fn reset_counters(&mut self, _: u64) {}

    /// Has no such meters any more.
    fn free_counters(&mut self, _: u64) {}
}
