//! A process and its descendants: CRIU dumps the whole tree and leaves all of it stopped.
//!
//! In: the root of the tree. Out: all its processes are resumed.

use crate::process_ref::ProcessRef;
use monitor_model::Pid;
use procfs::process::Process;

/// Resumes the whole tree; processes that have ended meanwhile are skipped.
pub fn resume_tree(process: &ProcessRef) {
    // CRIU takes a pid: if this process has ended, another one had its pid.
    let has_ended = process.pidfd.has_ended();
    let other = has_ended.then(|| ProcessRef::open_current(process.id.pid).ok()).flatten();
    let root = if has_ended { other.as_ref() } else { Some(process) };
    let Some(root) = root else { return };
    // Listed first: a running process may create other children.
    let below = below(root.pid());
    root.resume();
    below.iter().for_each(ProcessRef::resume);
}

fn below(root: i32) -> Vec<ProcessRef> {
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(pid) = next.pop() {
        let children: Vec<Pid> = children(pid);
        next.extend(children.iter().map(|it| super::super::process_ref::raw_pid(*it)));
        found.extend(children.into_iter().filter_map(|it| ProcessRef::open_current(it).ok()));
    }
    found
}

fn children(pid: i32) -> Vec<Pid> {
    let Ok(tasks) = Process::new(pid).and_then(|it| it.tasks()) else { return Vec::new() };
    tasks.flatten().filter_map(|it| it.children().ok()).flatten().map(Pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// Kills the process and its children on drop.
    struct Tree(Child);

    impl Drop for Tree {
        fn drop(&mut self) {
            for it in below(raw_pid(&self.0)) {
                let _ended = it.pidfd.signal(9);
            }
            let _ended = self.0.kill();
            let _status = self.0.wait();
        }
    }

    fn raw_pid(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    #[track_caller]
    fn until(what: impl Fn() -> bool) {
        let late = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < late, "timed out");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_that_was_stopped_with_its_parent_is_resumed_with_it() {
        let script = "sleep 1000 & wait";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let tree = Tree(child);
        let root = ProcessRef::open_current(Pid(tree.0.id())).unwrap();
        until(|| below(root.pid()).len() == 1);
        let all = || [below(root.pid()).remove(0).stat().unwrap(), root.stat().unwrap()];
        for it in below(root.pid()).iter().chain([&root]) {
            it.pidfd.signal(19).unwrap();
        }
        until(|| all().iter().all(|it| it.state == 'T'));
        resume_tree(&root);
        until(|| all().iter().all(|it| it.state != 'T'));
    }
}
