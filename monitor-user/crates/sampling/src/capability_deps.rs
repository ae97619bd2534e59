//! What is attached follows from what is asked for, and nothing else is.
//!
//! In: the part to read, the switches, the fields named. Out: capabilities. `doctor` prints the
//! same table.

use monitor_model::{Capability, Category, ProcessField, Scope};

/// What makes a capability needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityReason {
    /// Any reading of processes.
    Processes,
    /// `--disk`.
    Disk,
    /// `--writeback`.
    WriteBack,
    /// `--net`.
    Net,
    /// `--runqlat`.
    RunQueue,
    /// `--exact-cpu`.
    ExactCpu,
    /// `--signals`.
    Signals,
    /// A rule that waits for such an event.
    Event,
}

impl CapabilityReason {
    /// What one writes to get it.
    pub const fn option_name(self) -> &'static str {
        match self {
            Self::Processes => "sample, watch, run",
            Self::Disk => "--disk, run",
            Self::WriteBack => "--writeback",
            Self::Net => "--net, run",
            Self::RunQueue => "--runqlat",
            Self::ExactCpu => "--exact-cpu",
            Self::Signals => "--signals",
            Self::Event => "events",
        }
    }
}

/// Each capability, and how the names of the fields begin that only it can give.
const NEEDS: &[(Capability, CapabilityReason, &[&str])] = &[
    (Capability::Snapshot, CapabilityReason::Processes, &[]),
    (Capability::Lifetimes, CapabilityReason::Processes, &[]),
    (Capability::Block, CapabilityReason::Disk, &["block_"]),
    (Capability::WriteBack, CapabilityReason::WriteBack, &[]),
    (Capability::Tcp, CapabilityReason::Processes, &["tcp"]),
    (Capability::Sockets, CapabilityReason::Net, &["udp", "socket_"]),
    (Capability::RunQueue, CapabilityReason::RunQueue, &["run_queue_"]),
    (Capability::ExactCpu, CapabilityReason::ExactCpu, &["exact_cpu_"]),
    (Capability::Signals, CapabilityReason::Signals, &[]),
    (Capability::LibraryCalls, CapabilityReason::Event, &[]),
];

/// What makes this capability needed.
pub fn reason(capability: Capability) -> CapabilityReason {
    let row = NEEDS.iter().find(|(it, ..)| *it == capability);
    row.map_or(CapabilityReason::Event, |&(_, reason, _)| reason)
}

/// The capabilities for a reading: of this part, with these switches, naming these fields.
pub fn capabilities(
    scope: Scope,
    switches: &[CapabilityReason],
    named: &[ProcessField],
) -> Vec<Capability> {
    if !scope.processes() {
        return Vec::new();
    }
    let asked = |&&(_, reason, prefixes): &&(Capability, CapabilityReason, &[&str])| {
        reason == CapabilityReason::Processes
            || switches.contains(&reason)
            || named.iter().any(|it| prefixes.iter().any(|&p| it.field().name.starts_with(p)))
    };
    NEEDS.iter().filter(asked).map(|&(capability, ..)| capability).collect()
}

/// Whether a field of a process is counted by a hook, wholly or in part; all others are in the
/// kernel's own accounting. When counting began is only known where there is a hook.
pub fn is_probe_field(field: ProcessField) -> bool {
    let name = field.field().name;
    let of_hook = |&(.., prefixes): &(Capability, CapabilityReason, &[&str])| {
        prefixes.iter().any(|&prefix| name.starts_with(prefix))
    };
    field == ProcessField::CountedSince || NEEDS.iter().any(of_hook)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Block, Lifetimes, RunQueue, Snapshot, Sockets, Tcp};

    #[test]
    fn processes_need_the_iterator_lifetimes_and_open_sockets() {
        assert_eq!(capabilities(Scope::Processes, &[], &[]), [Snapshot, Lifetimes, Tcp]);
    }

    #[test]
    fn the_node_alone_attaches_nothing() {
        assert_eq!(capabilities(Scope::Node, &[CapabilityReason::Disk], &[]), []);
    }

    #[test]
    fn a_switch_adds_its_capability() {
        let got =
            capabilities(Scope::All, &[CapabilityReason::Disk, CapabilityReason::RunQueue], &[]);
        assert_eq!(got, [Snapshot, Lifetimes, Block, Tcp, RunQueue]);
    }

    #[test]
    fn a_field_that_only_one_can_give_implies_it() {
        let got = capabilities(Scope::Processes, &[], &[ProcessField::UdpSentRate]);
        assert_eq!(got, [Snapshot, Lifetimes, Tcp, Sockets]);
    }

    #[test]
    fn what_the_kernel_keeps_is_counted_by_no_hook() {
        assert!(!is_probe_field(ProcessField::CpuTime) && !is_probe_field(ProcessField::ReadBytes));
        assert!(
            is_probe_field(ProcessField::TcpSent) && is_probe_field(ProcessField::CountedSince)
        );
    }

    #[test]
    fn every_capability_has_a_reason() {
        let listed: Vec<_> = NEEDS.iter().map(|&(capability, ..)| capability).collect();
        assert_eq!(listed, Capability::ALL);
    }
}
