//! `/proc/stat`: CPU times in total and per CPU, context switches, interrupts, tasks.
//!
//! In: the text of the file and the length of a tick. Out: fields of the node, and a row for each
//! online CPU with its number; an offline CPU has no row. Opens no file.

use super::scan::{Scan, lines, only_number};
use monitor_model::field::{CpuField, NodeField, node::CpuRow};
use monitor_model::sample::Node;

/// The columns in the order of the line, see proc_stat(5). Guest time is part of user time.
const NODE: [NodeField; 8] = [
    NodeField::CpuUser,
    NodeField::CpuNice,
    NodeField::CpuSystem,
    NodeField::CpuIdle,
    NodeField::CpuIowait,
    NodeField::CpuIrq,
    NodeField::CpuSoftirq,
    NodeField::CpuSteal,
];
const CPU: [CpuField; 8] = [
    CpuField::User,
    CpuField::Nice,
    CpuField::System,
    CpuField::Idle,
    CpuField::Iowait,
    CpuField::Irq,
    CpuField::Softirq,
    CpuField::Steal,
];

/// Sets the fields that the text contains.
pub fn parse(node: &mut Node, text: &[u8], tick_ns: u64) {
    for line in lines(text) {
        let mut values = Scan::new(line);
        let Some(key) = values.word() else { continue };
        let field = match key {
            b"ctxt" => NodeField::ContextSwitches,
            b"intr" => NodeField::Interrupts,
            b"processes" => NodeField::ProcessesCreated,
            b"procs_running" => NodeField::TasksRunning,
            b"procs_blocked" => NodeField::TasksBlocked,
            _ => {
                times(node, key, values, tick_ns);
                continue;
            }
        };
        node.row.set_some(field, values.number());
    }
    let n_online = u64::try_from(node.cpus.len()).unwrap_or(u64::MAX);
    if n_online > 0 {
        node.row.set(NodeField::OnlineCpus, n_online);
    }
}

/// Parses a line of CPU times: `cpu` is the total, `cpu3` one CPU.
fn times(node: &mut Node, key: &[u8], mut values: Scan<'_>, tick_ns: u64) {
    let Some(number) = key.strip_prefix(b"cpu") else { return };
    let mut next = || values.number().and_then(|ticks| ticks.checked_mul(tick_ns));
    if number.is_empty() {
        NODE.into_iter().for_each(|field| node.row.set_some(field, next()));
        return;
    }
    let Some(number) = only_number(number).and_then(|it| u32::try_from(it).ok()) else { return };
    let mut row = CpuRow::default();
    CPU.into_iter().for_each(|field| row.set_some(field, next()));
    node.cpus.push((number, row));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"cpu  10 2 3 40 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n\
        cpu2 9 2 3 4 5 6 7 8 0 0\nintr 77 1 2 3\nctxt 55\nbtime 1\nprocesses 44\n\
        procs_running 3\nprocs_blocked 1\n";

    #[test]
    fn an_offline_cpu_has_no_row() {
        let mut node = Node::default();
        parse(&mut node, TEXT, 10);
        let numbers: Vec<u32> = node.cpus.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 2]);
        assert_eq!(node.cpus[1].1.get(CpuField::User), Some(90));
        assert_eq!(node.row.get(NodeField::CpuSteal), Some(80));
        assert_eq!(
            (node.row.get(NodeField::OnlineCpus), node.row.get(NodeField::Interrupts)),
            (Some(2), Some(77))
        );
    }

    #[test]
    fn a_truncated_line_leaves_fields_absent() {
        let mut node = Node::default();
        parse(&mut node, b"cpu  10 2\nctxt\ncpux 1", 10);
        assert_eq!(node.row.get(NodeField::CpuNice), Some(20));
        assert_eq!(node.row.get(NodeField::CpuSystem), None);
        assert_eq!(node.row.get(NodeField::ContextSwitches), None);
    }
}
