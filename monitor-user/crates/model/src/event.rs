//! What happened between two samples, one by one: for what counters cannot tell.
//!
//! Events are there only while their capability is asked for. A sample carries at most
//! [`EVENTS_LIMIT`] of a kind; the rest is counted among what was lost.

use super::id::{Identity, Ns, Pid};

/// Most events of one capability that a sample carries: at 10,000 a second, one reading in six
/// seconds loses none.
pub const EVENTS_LIMIT: usize = 1 << 16;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// To whom.
    pub target: Identity,
    /// What.
    pub what: What,
}

impl Event {
    /// Who caused it, if that was another process or itself.
    pub const fn sender(&self) -> Option<Identity> {
        match self.what {
            What::SignalGenerated { sender, .. } => sender,
            What::SignalDelivered { .. } => None,
        }
    }
}

/// What happened to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A signal was made for it.
    SignalGenerated {
        /// The signal.
        signal: Signal,
        /// Who sent it; absent when the kernel made it.
        sender: Option<Identity>,
        /// What became of it.
        outcome: Outcome,
    },
    /// One of its threads took a signal.
    SignalDelivered {
        /// The signal; its thread is the one that took it.
        signal: Signal,
    },
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: u32,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// The thread that it is for; absent when any thread of the process may take it.
    pub thread: Option<Pid>,
}

/// Names of the signals from 1 on, as every architecture but Alpha, MIPS, PA-RISC and SPARC
/// numbers them (signal(7)).
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];
/// The first real-time signal that the C library leaves to programs.
const RTMIN: u32 = 34;
/// The last one.
const RTMAX: u32 = 64;

impl Signal {
    /// Its name; none for those that the C library keeps for itself.
    pub fn name(&self) -> Option<String> {
        match self.number {
            RTMIN => Some("SIGRTMIN".into()),
            number @ RTMIN..=RTMAX => Some(format!("SIGRTMIN+{}", number - RTMIN)),
            number => {
                let place = usize::try_from(number).ok()?.checked_sub(1)?;
                NAMES.get(place).map(|&name| name.to_owned())
            }
        }
    }
}

/// What became of a signal as it was made (`TRACE_SIGNAL_*` of include/trace/events/signal.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is pending and will be taken.
    Queued,
    /// The process ignores it, or cannot be reached any more.
    Ignored,
    /// It was pending already, and will be taken once.
    AlreadyPending,
    /// The queue of the process is full: it is lost.
    Overflowed,
    /// The queue of the process is full: it will be taken, but says nothing of its sender.
    Stripped,
}

impl Outcome {
    const ALL: [Self; 5] =
        [Self::Queued, Self::Ignored, Self::AlreadyPending, Self::Overflowed, Self::Stripped];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Ignored => "ignored",
            Self::AlreadyPending => "already_pending",
            Self::Overflowed => "overflowed",
            Self::Stripped => "stripped",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Signal;

    #[test]
    fn signals_have_the_names_of_the_manual() {
        let name = |number| Signal { number, code: 0, thread: None }.name();
        assert_eq!(name(9).as_deref(), Some("SIGKILL"));
        assert_eq!(name(31).as_deref(), Some("SIGSYS"));
        assert_eq!(name(34).as_deref(), Some("SIGRTMIN"));
        assert_eq!(name(64).as_deref(), Some("SIGRTMIN+30"));
        assert_eq!((name(0), name(33), name(65)), (None, None, None));
    }
}
