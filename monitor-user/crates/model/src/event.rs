//! Single events between two samples, such as signals: what counters cannot show.
//!
//! Events are recorded only while their capability is enabled. A sample carries at most
//! [`EVENTS_LIMIT`] of one capability; the rest is counted as lost.

use super::{Identity, Ns, Pid};
use crate::names;

/// Maximum events of one capability in a sample: at 10,000 per second, a reading every six seconds
/// loses none.
pub const EVENTS_LIMIT: usize = 1 << 16;

/// An event of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleEvent {
    /// Time, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process.
    pub target: Identity,
    /// What happened.
    pub kind: SampleEventKind,
}

impl SampleEvent {
    /// The process that caused it, possibly the target itself; none if the kernel did.
    pub const fn sender(&self) -> Option<Identity> {
        match self.kind {
            SampleEventKind::SignalGenerated { sender, .. } => sender,
            SampleEventKind::SignalDelivered { .. } => None,
        }
    }
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleEventKind {
    /// A signal was generated for the process.
    SignalGenerated {
        /// The signal.
        signal: Signal,
        /// Sender; absent when the kernel generated it.
        sender: Option<Identity>,
        /// Result.
        outcome: SignalOutcome,
    },
    /// A signal was delivered to one of its threads.
    SignalDelivered {
        /// The signal; its thread is the one it was delivered to.
        signal: Signal,
    },
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Signal number.
    pub number: u32,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// Target thread; absent when any thread of the process may handle it.
    pub thread: Option<Pid>,
}

/// Names of the signals from 1 on, as every architecture but Alpha, MIPS, PA-RISC and SPARC
/// numbers them (signal(7)).
const NAMES: &str = "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 \
     SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN \
     SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS";
/// First real-time signal that the C library leaves to programs.
const RTMIN: u32 = 34;
/// Last real-time signal.
const RTMAX: u32 = 64;

impl Signal {
    /// Name of the signal; none for those reserved by the C library.
    pub fn name(&self) -> Option<String> {
        match self.number {
            RTMIN => Some("SIGRTMIN".into()),
            number @ RTMIN..=RTMAX => Some(format!("SIGRTMIN+{}", number - RTMIN)),
            number => {
                let index = usize::try_from(number).ok()?.checked_sub(1)?;
                NAMES.split(' ').nth(index).map(str::to_owned)
            }
        }
    }
}

/// Result of generating a signal (`TRACE_SIGNAL_*` of include/trace/events/signal.h), in the order
/// of the numbers of the kernel, which recordings contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOutcome {
    /// It is pending and will be delivered.
    Queued,
    /// The process ignores it, or is exiting.
    Ignored,
    /// It was already pending, and will be delivered once.
    AlreadyPending,
    /// The signal queue of the process is full: the signal is lost.
    Overflowed,
    /// The signal queue is full: the signal will be delivered without information on its sender.
    Stripped,
}

names! { SignalOutcome {
    Queued "queued", Ignored "ignored", AlreadyPending "already_pending", Overflowed "overflowed",
    Stripped "stripped",
} }

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
