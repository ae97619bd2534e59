//! The node: load, memory, pressure, processors, disks and interfaces.
//!
//! In: the roots of `/proc` and `/sys`, and a read specification. Out: a `Node` with what is
//! requested, and notes on what is missing. Shared by all backends that read a real node.

use super::root::{Root, text_of};
use super::{disk, hidepid, infiniband, net, node_cpu::NodeCpu};
use crate::device;
use monitor_model::{Devices, Node, NodeField, NodeRow, Note, ReadSpec};
use monitor_proc::{cpu, memory, scan::Scan};
use monitor_sys::clock;

/// Reads the node.
#[derive(Debug, Default)]
pub struct NodeReader {
    cpu: NodeCpu,
}

impl NodeReader {
    /// The requested parts of the node; none if none are requested.
    pub fn read(&mut self, root: &Root, want: &ReadSpec, notes: &mut Vec<Note>) -> Option<Node> {
        if !want.node && want.disks == Devices::None && want.nets == Devices::None {
            return None;
        }
        let mut node = Node::default();
        if let Some(why) = hidepid::not_proc(&root.proc) {
            let fix = hidepid::MOUNT_PROC;
            notes.push(Note::missing(format!("no node, disks and interfaces: {why}; {fix}")));
            return Some(node);
        }
        if want.node {
            self.read_itself(root, &mut node, notes);
        }
        if want.disks != Devices::None {
            let disks = disk::read(&root.proc, notes);
            node.disks = device::select(disks, &want.disks, "disk", disk::by_default, notes);
        }
        if want.nets != Devices::None {
            let mut nets = net::read(&root.proc, notes);
            nets.extend(infiniband::read(&root.sys));
            node.nets = device::select(nets, &want.nets, "interface", |_| true, notes);
        }
        Some(node)
    }

    fn read_itself(&mut self, root: &Root, node: &mut Node, notes: &mut Vec<Note>) {
        if let Some(text) = text_of(&root.proc.join("stat"), notes) {
            cpu::parse(node, &text, clock::tick_ns());
        }
        self.cpu.read(root, node, notes);
        if let Some(text) = text_of(&root.proc.join("loadavg"), notes) {
            load(&mut node.row, &text);
        }
        if let Some(text) = text_of(&root.proc.join("meminfo"), notes) {
            memory::parse(&mut node.row, &text);
        }
    }
}

/// `/proc/loadavg`, see proc_loadavg(5).
fn load(row: &mut NodeRow, text: &[u8]) {
    let mut scan = Scan::new(text);
    for field in [NodeField::Load1, NodeField::Load5, NodeField::Load15] {
        let word = scan.word().and_then(|word| std::str::from_utf8(word).ok());
        let Some(load) = word.and_then(|word| word.parse::<f64>().ok()) else { return };
        if load.is_finite() {
            row.set_float(field, load);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_no_number_is_absent() {
        let mut row = NodeRow::default();
        load(&mut row, b"0.34 NaN x");
        assert_eq!(row.get(NodeField::Load1).map(f64::from_bits), Some(0.34));
        assert_eq!((row.get(NodeField::Load5), row.get(NodeField::Load15)), (None, None));
    }
}
