//! Selects devices: all of a kind, or those that were named.
//!
//! In: all devices and the selection. Out: the selected ones, in the same order, and a note for
//! each unknown name.

use monitor_model::{Device, Devices, Node, Note, ReadSpec};
use std::sync::Arc;

/// The selected devices; adds a note for each unknown name.
pub fn select<R>(
    devices: Vec<Device<R>>,
    want: &Devices,
    what: &str,
    by_default: fn(&str) -> bool,
    notes: &mut Vec<Note>,
) -> Vec<Device<R>> {
    let Devices::Named(names) = want else {
        return devices.into_iter().filter(|it| by_default(&it.name)).collect();
    };
    let known: Vec<Arc<str>> = devices.iter().map(|it| Arc::clone(&it.name)).collect();
    for name in names.iter().filter(|name| !known.contains(name)) {
        notes.push(unknown(what, name, &known));
    }
    devices.into_iter().filter(|it| names.contains(&it.name)).collect()
}

/// What is requested of a node; none if nothing is.
pub fn select_node(all: Node, want: &ReadSpec, notes: &mut Vec<Note>) -> Option<Node> {
    if !want.node && want.disks == Devices::None && want.nets == Devices::None {
        return None;
    }
    let mut node = Node::default();
    if want.node {
        (node.row, node.cpus) = (all.row, all.cpus);
    }
    if want.disks != Devices::None {
        node.disks = select(all.disks, &want.disks, "disk", |_| true, notes);
    }
    if want.nets != Devices::None {
        node.nets = select(all.nets, &want.nets, "interface", |_| true, notes);
    }
    Some(node)
}

/// The note on a device that does not exist.
fn unknown(what: &str, name: &str, known: &[Arc<str>]) -> Note {
    if known.is_empty() {
        return Note::missing(format!("no {what} {name}: there are none"));
    }
    Note::missing(format!("no {what} {name}: there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_is_reported_and_the_others_are_returned() {
        let device = |name: &str| Device { name: name.into(), row: () };
        let mut notes = Vec::new();
        let want = Devices::Named(vec!["sdz".into(), "loop0".into()]);
        let all = vec![device("sda"), device("loop0")];
        let got = select(all, &want, "disk", |_| false, &mut notes);
        assert_eq!(got.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["loop0"]);
        assert_eq!(notes, [Note::missing("no disk sdz: there are sda, loop0")]);
    }
}
