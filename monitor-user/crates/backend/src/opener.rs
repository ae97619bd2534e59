//! Which backend is requested, and what opens it.
//!
//! In: a name. Out: an [`Opener`], made by the program. The crates between hold it, so that none of
//! them depends on an implementation.

use crate::{Backend, Error, call_profile::OpenCallProfiler, rule::Rules};
use monitor_model::{Capability, Note, UnknownName, name};

/// The requested backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The best one that works.
    #[default]
    Auto,
    /// The task iterator and BPF maps.
    Ebpf,
    /// Files of `/proc`.
    Procfs,
    /// Fixed values.
    Test,
    /// None: every call fails with a reason.
    Unsupported,
}

impl BackendChoice {
    /// Names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["auto", "ebpf", "procfs", "test", "unsupported"];

    /// Name of the choice.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether this choice permits eBPF, and with it rule programs.
    pub const fn permits_ebpf(self) -> bool {
        matches!(self, Self::Auto | Self::Ebpf)
    }
}

impl std::str::FromStr for BackendChoice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        const ALL: [BackendChoice; 5] = [
            BackendChoice::Auto,
            BackendChoice::Ebpf,
            BackendChoice::Procfs,
            BackendChoice::Test,
            BackendChoice::Unsupported,
        ];
        Ok(ALL[name::position("backend", Self::NAMES.into_iter(), text)?])
    }
}

/// A working backend, and notes on why it is not a better one.
pub type Opened = (Box<dyn Backend>, Vec<Note>);

/// Opens the chosen backend and the kernel's rules, when they are first needed.
#[derive(Clone, Copy, Debug)]
pub struct Opener {
    /// The requested backend.
    pub choice: BackendChoice,
    /// Opens a backend for these capabilities.
    pub open_backend: fn(BackendChoice, &[Capability]) -> Result<Opened, Error>,
    /// Loads the rule programs; nothing is attached yet.
    pub open_rules: fn() -> Result<Box<dyn Rules>, Error>,
    /// The same, and the kernel has verified the programs of births and ends of processes, which
    /// takes most of the time until they are attached.
    pub open_event_rules: fn() -> Result<Box<dyn Rules>, Error>,
    /// Opens a profile of library calls.
    pub open_call_profiler: OpenCallProfiler,
}

impl Opener {
    /// Opens the chosen backend.
    ///
    /// # Errors
    ///
    /// Fails if an explicit choice does not work here.
    pub fn backend(&self, wanted: &[Capability]) -> Result<Opened, Error> {
        (self.open_backend)(self.choice, wanted)
    }

    /// Opens the kernel's rules; none if the choice does not permit eBPF.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses them.
    pub fn rules(&self) -> Option<Result<Box<dyn Rules>, Error>> {
        self.choice.permits_ebpf().then(|| (self.open_rules)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_from_its_name() {
        assert_eq!("procfs".parse(), Ok(BackendChoice::Procfs));
    }

    #[test]
    fn an_unknown_choice_is_reported_with_the_most_similar() {
        let error = "epbf".parse::<BackendChoice>().expect_err("no such backend").to_string();
        assert_eq!(error, r#"unknown backend "epbf"; did you mean "ebpf"?"#);
    }
}
