//! The node, its disks and interfaces, read from the fixture: each value at its place.

use super::tree::fixture;
use monitor_backends::procfs::{Root, node::NodeReader};
use monitor_model::field::{CpuField, DiskField, NetField, NodeField};
use monitor_model::read_spec::{Devices, ReadSpec};
use monitor_model::sample::{Node, Note};

fn read(want: &ReadSpec) -> (Node, Vec<Note>) {
    let mut notes = Vec::new();
    let node = NodeReader::default().read(&Root::below(&fixture()), want, &mut notes).unwrap();
    (node, notes)
}

fn named(names: &[&str]) -> Devices {
    Devices::Named(names.iter().map(|&name| name.into()).collect())
}

#[track_caller]
fn check(field: NodeField, want: u64) {
    let (node, notes) = read(&ReadSpec { node: true, ..ReadSpec::default() });
    assert_eq!((node.row.get(field), notes), (Some(want), vec![]));
}

#[test]
fn the_node_has_the_values_of_the_files() {
    check(NodeField::Load5, 1.67_f64.to_bits());
    check(NodeField::MemAvailable, 20_000_000 * 1024);
    check(NodeField::SwapFree, 1_048_000 * 1024);
    check(NodeField::OnlineCpus, 2);
    check(NodeField::CpuUser, 3_000_000_000);
    check(NodeField::CpuSteal, 90_000_000);
    check(NodeField::ContextSwitches, 7_654_321);
    check(NodeField::Interrupts, 1_234_567);
    check(NodeField::TasksBlocked, 1);
    check(NodeField::CpuTasks, 4_000_000_007);
    check(NodeField::CpuBusy, 4_000_000_007);
    check(NodeField::PsiCpuSome, 52_300_927_000);
    check(NodeField::PsiMemoryFull, 12_000);
    check(NodeField::PsiIoSome, 13_000);
}

#[test]
fn processors_keep_their_numbers() {
    let (node, _) = read(&ReadSpec { node: true, ..ReadSpec::default() });
    let numbers: Vec<u32> = node.cpus.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 3]);
    assert_eq!(node.cpus[1].1.get(CpuField::User), Some(2_000_000_000));
    assert_eq!(node.cpus[1].1.get(CpuField::Busy), Some(7));
}

#[test]
fn memory_devices_are_given_by_name_only() {
    let names = |disks| {
        let (node, notes) = read(&ReadSpec { disks, ..ReadSpec::default() });
        let names: Vec<String> = node.disks.iter().map(|it| it.name.to_string()).collect();
        (names.join(" "), notes.len())
    };
    assert_eq!(names(Devices::All), ("nvme0n1 nvme0n1p1 dm-0 sda".into(), 0));
    assert_eq!(names(named(&["loop0", "sda", "sdz"])), ("loop0 sda".into(), 1));
}

#[test]
fn discards_and_flushes_are_absent_where_the_kernel_lacks_them() {
    let (node, _) = read(&ReadSpec { disks: Devices::All, ..ReadSpec::default() });
    let value = |idx: usize, field| node.disks[idx].row.get(field);
    assert_eq!(value(0, DiskField::ReadBytes), Some(300 * 512));
    assert_eq!(value(0, DiskField::Flushes), Some(16));
    assert_eq!(value(2, DiskField::DiscardedBytes), Some(14 * 512));
    assert_eq!(value(2, DiskField::Flushes), None);
    assert_eq!(value(3, DiskField::Discards), None);
}

#[test]
fn ports_of_infiniband_are_listed_with_the_interfaces() {
    let (node, _) = read(&ReadSpec { nets: Devices::All, ..ReadSpec::default() });
    let value = |name: &str, field| {
        let net = node.nets.iter().find(|it| &*it.name == name).unwrap();
        net.row.get(field)
    };
    assert_eq!(value("eth0", NetField::ReceivedDropped), Some(2));
    assert_eq!(value("eth0", NetField::SentDropped), Some(8));
    assert_eq!(value("mlx5_0:1", NetField::ReceivedBytes), Some(4000));
    assert_eq!(value("mlx5_0:1", NetField::SentBytes), Some(8000));
    assert_eq!(value("mlx5_0:1", NetField::Collisions), None);
    // Its old counter is full at 32 bits; the wide one goes on.
    assert_eq!(value("mlx4_0:2", NetField::ReceivedBytes), Some(20_000_000_000));
}
