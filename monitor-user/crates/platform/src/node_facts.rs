//! What is known of the node itself.

use monitor_event::outcome::Refusal;

/// A node; what could not be read is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its architecture, as the system calls it.
    pub architecture: String,
    /// Processors on line.
    pub cpus: Option<u64>,
    /// Memory that can be had, in bytes.
    pub avail_memory: Option<u64>,
    /// Disk space that can be had where temporary files go, in bytes.
    pub avail_disk: Option<u64>,
    /// Speed of a processor, in MHz.
    pub cpu_speed: Option<u64>,
}

/// Who knows the node.
pub trait NodeInfo {
    /// What is known of it now.
    fn node_facts(&mut self) -> Result<NodeFacts, Refusal>;
}
