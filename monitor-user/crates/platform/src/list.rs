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
pub type Programs = BTreeMap<RuleKey, Program>;

/// What the kernel does of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Which of those that had the number; later ones are higher.
    pub serial: u64,
    /// At what.
    pub topic: EventKind,
    /// Whose.
    pub whose: Members,
    /// Only in processes that its user may look into as they meet the event.
    pub eyes: Option<Credentials>,
    /// Only if this holds.
    pub check: Option<Predicate>,
    /// What it does.
    pub steps: Vec<Step>,
    /// Whether it tells user space afterwards, where the rest is done.
    pub tells: bool,
    /// For whom who met the event is held until that is done.
    pub holds: Option<Tool>,
    /// Runs in a second at which it is switched off.
    pub most: u32,
}

/// Whose events a program is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Members {
    /// Nobody's in particular.
    Anybody,
    /// Those of whom a session observes, and of the children that these will have.
    Attached(SessionId, BTreeSet<Identity>),
    /// Those of these.
    These(BTreeSet<Identity>),
}

/// Who runs programs. Who does not, takes none, and all is done in user space.
pub trait Lists {
    /// Runs these from now on, and no others; those that are new are off. Which it does not take.
    fn run(&mut self, programs: &Programs) -> Vec<(RuleKey, Refusal)> {
        let why = || Refusal::new(monitor_omis::Status::UNSUPPORTED, "no kernel runs rules here");
        programs.keys().map(|key| (*key, why())).collect()
    }

    /// Lets a program run, or not; from when on.
    fn switch(&mut self, _: RuleKey, _: bool) -> Ns {
        Ns(0)
    }

    /// Whether it may run: programs switch each other.
    fn is_on(&mut self, _: RuleKey) -> bool {
        false
    }

    /// How who meets its event is held now, if a program holds anybody.
    fn hold(&mut self, _: RuleKey) -> Option<ExecutionPlace> {
        None
    }

    /// How often it has run since the kernel has it.
    fn n_runs(&mut self, _: RuleKey) -> u64 {
        0
    }

    /// What the kernel has counted in a meter since it was forgotten last.
    fn metered(&mut self, _: KernelCounter) -> KernelCounterValue {
        KernelCounterValue::default()
    }

    /// Changes the level of a number where the kernel has it. What it was before.
    fn move_level(&mut self, _: u64, _: GaugeChange) -> Option<i64> {
        None
    }

    /// What the kernel has recorded in the trace of a number since this was asked last.
    fn take_records(&mut self, _: u64) -> Trace {
        Trace::default()
    }

    /// Forgets what was counted in the meters of a number; a level stays what it is.
    fn forget_meters(&mut self, _: u64) {}

    /// Has no such meters any more.
    fn free_meters(&mut self, _: u64) {}
}
