//! Static probes of unusual events, and whose job a process is of.

use monitor_event::outcome::Refusal;
use monitor_model::diagnosis::DiagOrigin;
use monitor_model::id::{Identity, Ns};
use monitor_symbols::diag_probes::DiagProbe;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A static probe of a process, and how often it was met since it was asked last.
pub type DiagProbeCount = (Identity, Arc<DiagProbe>, u64);

/// Who counts what static probes meet.
pub trait DiagProbes {
    /// Which job and rank a process is.
    fn diag_origin(&mut self, id: Identity) -> DiagOrigin {
        DiagOrigin::process(id.pid)
    }

    /// Whether the static probes of a process can be counted here.
    fn check_diag_probes(&mut self, _: Identity) -> Result<(), Refusal> {
        Ok(())
    }

    /// From now on the static probes of these are counted, and of no others.
    fn count_diag_probes(&mut self, _: &BTreeSet<Identity>) {}

    /// What they met since it was asked last; of one that has ended too, as long as it is counted.
    fn take_diag_counts(&mut self) -> Vec<DiagProbeCount> {
        Vec::new()
    }

    /// A time of `CLOCK_BOOTTIME` as one since 1970.
    fn unix_time(&self, at: Ns) -> Ns {
        at
    }
}
