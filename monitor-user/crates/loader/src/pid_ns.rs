//! Translation of pids between the monitor's pid namespace and the host's.
//!
//! In: what `/proc` of the namespace contains on a process, and the processes of a snapshot,
//! limited by the kernel to those visible in the namespace. Out: the host's pid. Reads no files.

use monitor_backends::procfs::text::NamespaceView;
use monitor_model::{Identity, Pid, Process, ProcessField};

/// Host pid of a process. Nested namespaces may each have a process with that pid. If two of them
/// started in the same tick, the name decides; the name alone is not enough, because another file
/// may have been executed since.
pub fn host_pid(inside: &NamespaceView, processes: &[Process], tick_ns: u64) -> Option<Pid> {
    let is_candidate = |process: &&Process| {
        process.row.get(ProcessField::NsPid) == Some(u64::from(inside.ns_pid.0))
            && process.id.start.0 / tick_ns == inside.start_ticks
    };
    let name = |comm: &[u8; 16]| comm.split(|&byte| byte == 0).next().map(<[u8]>::to_vec);
    let found = processes.iter().filter(is_candidate);
    found.max_by_key(|it| name(&it.comm) == name(&inside.comm)).map(|process| process.id.pid)
}

/// Identity of a process in the `/proc` of our namespace. A process in a nested namespace
/// is not found by it.
pub fn in_proc(process: &Process) -> Identity {
    let inside = process.row.get(ProcessField::NsPid).and_then(|pid| pid.try_into().ok());
    Identity { pid: inside.map_or(process.id.pid, Pid), ..process.id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    fn process(pid: u32, ns_pid: u64, start: u64, comm: &[u8]) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(start) };
        let mut it = Process { id, ..Process::default() };
        it.comm[..comm.len()].copy_from_slice(comm);
        it.row.set(ProcessField::NsPid, ns_pid);
        it
    }

    #[test]
    fn pid_start_and_name_identify_the_process() {
        let processes = [
            process(901, 5, 1_999, b"sh"),
            process(902, 5, 2_001, b"sleep"),
            process(903, 5, 2_002, b"sh"),
            process(904, 6, 2_003, b"cat"),
        ];
        let comm = *b"sh\0ignored\0\0\0\0\0\0";
        let inside = |number| NamespaceView { ns_pid: Pid(number), start_ticks: 2, comm };
        assert_eq!(host_pid(&inside(5), &processes, 1_000), Some(Pid(903)));
        assert_eq!(host_pid(&inside(6), &processes, 1_000), Some(Pid(904)));
        assert_eq!(host_pid(&inside(7), &processes, 1_000), None);
    }
}
