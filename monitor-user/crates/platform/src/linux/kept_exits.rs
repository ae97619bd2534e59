//! How processes have ended whose ends may be too early for a watch: the kernel keeps that for a
//! descriptor which was opened before (`PIDFD_INFO_EXIT`, pidfd_open(2), since Linux 6.15).
//!
//! In: the processes of interest, each time. Out: how those have ended that are known to have. The
//! descriptor of a process that is no longer of interest is closed.

use monitor_backends::procfs;
use monitor_jobs::job_log::EndStatus;
use monitor_model::Identity;
use monitor_model::id::is_same;
use monitor_sys::pidfd::{PidFd, exit_code};
use std::collections::BTreeMap;

/// Descriptors of processes of interest.
#[derive(Default)]
pub struct KeptExits(BTreeMap<Identity, PidFd>);

impl KeptExits {
    /// Keeps the exits of these processes, and of no others; returns those that are known.
    pub fn update(&mut self, of: &[Identity]) -> Vec<(Identity, EndStatus)> {
        self.0.retain(|id, _| of.contains(id));
        for id in of {
            if !self.0.contains_key(id)
                && let Some(process) = open(*id)
            {
                self.0.insert(*id, process);
            }
        }
        let ended = |(id, process): (&Identity, &PidFd)| Some((*id, end(process.status()?)));
        self.0.iter().filter_map(ended).collect()
    }
}

/// How a process has ended, by a status as in wait(2).
fn end(status: i32) -> EndStatus {
    let status = status.cast_unsigned();
    EndStatus { code: u32::try_from(exit_code(status)).ok(), signal: Some(status & 0x7f) }
}

/// Opens a process, unless another one has its pid by now.
fn open(id: Identity) -> Option<PidFd> {
    let process = PidFd::open(id.pid).ok()?;
    let start = procfs::start_time(id.pid)?;
    is_same(Identity { start, ..id }, id).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::Pid;
    use std::process::{Command, Stdio};

    #[test]
    fn the_exit_of_a_child_is_known_after_it_was_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "read _; exit 7"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid(child.id());
        let id = Identity { pid, start: procfs::start_time(pid).unwrap() };
        let mut kept = KeptExits::default();
        assert_eq!(kept.update(&[id]), []);
        drop(child.stdin.take());
        child.wait().unwrap();
        let known = kept.update(&[id]);
        // Before Linux 6.15 it is not kept.
        let want = EndStatus { code: Some(7), signal: Some(0) };
        assert!(known.is_empty() || known == [(id, want)], "{known:?}");
        assert_eq!(kept.update(&[]), []);
        assert!(kept.0.is_empty());
    }
}
