//! Probe readers: each loads the object of some capabilities and merges its counts into samples.

use crate::object::{Fallback, Object};
use crate::{health, kernel::Kernel};
use monitor_backend::Error;
use monitor_model::{Capability, NodeRow, Ns, Pid, Probe, Process, Sample};
use std::os::fd::BorrowedFd;

/// Reads the counts of a loaded object and merges them into the processes of a snapshot.
pub trait ProbeReader: Send {
    /// The loaded object, for its state; none if no program is used.
    fn object(&self) -> Option<&Object>;

    /// Reads what a snapshot that comes next must not have counted already.
    fn before_snapshot(&mut self) {}

    /// The same before a reading of few processes.
    fn before_few(&mut self, _: &[Pid]) {}

    /// Whether it knew the identities of these few before they were read; from now on it does.
    fn knew(&mut self, _: &[Process]) -> bool {
        true
    }

    /// Merges its counts into a sample. The processes are and stay in the order of identities;
    /// ended ones are included once the lifecycle has been merged, which is first.
    fn merge_into(&mut self, sample: &mut Sample);

    /// The same for a reading of few processes: only for fields that the kernel also counts.
    fn merge_into_few(&mut self, _: &mut [Process]) {}

    /// Sets what it counts for no process in a row of the node.
    fn add_to_node(&self, _: &mut NodeRow) {}

    /// Descriptor that becomes readable when records should be fetched before the next reading.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fetches pending records.
    fn drain(&mut self) {}

    /// Why it does not use the best hooks, if so.
    fn fallback(&self) -> Option<&Fallback> {
        self.object()?.fallback.as_ref()
    }

    /// State of one of its capabilities.
    fn probe(&self, capability: Capability) -> Probe {
        let Some(object) = self.object() else { return Probe::off(capability) };
        health::probe(capability, object, self.dropped())
    }

    /// Records dropped in user space.
    fn dropped(&self) -> u64 {
        0
    }
}

/// Loads and attaches a probe.
type Load = fn(&Kernel, &ProbeConfig<'_>) -> Result<Box<dyn ProbeReader>, Error>;

/// How to load a probe, and the capabilities that it provides.
pub struct ProbeSpec {
    /// Capabilities it provides; it is loaded if one of them is requested.
    pub serves: &'static [Capability],
    /// Loads and attaches it for the requested capabilities.
    pub load: Load,
}

impl ProbeSpec {
    /// A probe that provides these capabilities.
    pub const fn new(serves: &'static [Capability], load: Load) -> Self {
        Self { serves, load }
    }

    /// Whether one of these capabilities needs it.
    pub fn needed(&self, capabilities: &[Capability]) -> bool {
        self.serves.iter().any(|serves| capabilities.contains(serves))
    }
}

/// Configuration of a probe.
#[derive(Clone, Copy)]
pub struct ProbeConfig<'a> {
    /// All requested capabilities, of this probe and of others.
    pub capabilities: &'a [Capability],
    /// Time when counting begins.
    pub since: Ns,
    /// How often it is read.
    pub readings: Readings,
}

/// How often a backend is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readings {
    /// Once, right after it was opened: nothing is attached for what happens between two readings.
    One,
    /// Any number of times.
    Many,
}
