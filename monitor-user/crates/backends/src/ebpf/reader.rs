//! Process ids as the reader writes them, where it lives in a pid namespace of its own.
//!
//! In: what `/proc` says there of a process, and the processes of a snapshot, of which the kernel
//! shows a reader only those that its namespace can see. Out: the host's id. Reads nothing.

use crate::procfs::text::Inside;
use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Pid};
use monitor_model::sample::Process;

/// The process that this is said of. Namespaces inside the reader's own may each have one of that
/// number. If two of them started in the same tick, the name tells; it alone does not, because
/// another program may have been executed since.
pub fn host_pid(inside: &Inside, processes: &[Process], tick_ns: u64) -> Option<Pid> {
    let is_it = |process: &&Process| {
        process.row.get(ProcessField::NsPid) == Some(u64::from(inside.innermost.0))
            && process.id.start.0 / tick_ns == inside.start_ticks
    };
    let name = |comm: &[u8; 16]| comm.split(|&byte| byte == 0).next().map(<[u8]>::to_vec);
    let found = processes.iter().filter(is_it);
    found.max_by_key(|it| name(&it.comm) == name(&inside.comm)).map(|process| process.id.pid)
}

/// By which identity a process is found in the `/proc` of the reader's namespace. One that lives
/// in a namespace further in is found by none.
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
    fn number_start_and_name_tell_which_it_is() {
        let processes = [
            process(901, 5, 1_999, b"sh"),
            process(902, 5, 2_001, b"sleep"),
            process(903, 5, 2_002, b"sh"),
            process(904, 6, 2_003, b"cat"),
        ];
        let comm = *b"sh\0ignored\0\0\0\0\0\0";
        let inside = |number| Inside { innermost: Pid(number), start_ticks: 2, comm };
        assert_eq!(host_pid(&inside(5), &processes, 1_000), Some(Pid(903)));
        assert_eq!(host_pid(&inside(6), &processes, 1_000), Some(Pid(904)));
        assert_eq!(host_pid(&inside(7), &processes, 1_000), None);
    }
}
