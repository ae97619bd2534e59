//! A process with all who descend from it: CRIU dumps the whole tree, and leaves all of it stopped.
//!
//! In: a process. Out: that it and they run.

use super::super::subject::Subject;
use monitor_model::id::Pid;
use procfs::process::Process;

/// Lets all of it run. Whoever has ended meanwhile need not.
pub fn let_run(subject: &Subject) {
    // CRIU knows numbers: if this one has ended, it was another that had its number.
    let has_ended = subject.held.has_ended();
    let other = has_ended.then(|| Subject::now(subject.id.pid).ok()).flatten();
    let root = if has_ended { other.as_ref() } else { Some(subject) };
    let Some(root) = root else { return };
    // Found first: who runs may have other children a moment later.
    let below = below(root.pid());
    root.let_run();
    below.iter().for_each(Subject::let_run);
}

fn below(root: i32) -> Vec<Subject> {
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(pid) = next.pop() {
        let children: Vec<Pid> = children(pid);
        next.extend(children.iter().map(|it| super::super::subject::raw(*it)));
        found.extend(children.into_iter().filter_map(|it| Subject::now(it).ok()));
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

    /// Ends with this, and with it its children.
    struct Tree(Child);

    impl Drop for Tree {
        fn drop(&mut self) {
            for it in below(raw(&self.0)) {
                let _ended = it.held.signal(9);
            }
            let _ended = self.0.kill();
            let _status = self.0.wait();
        }
    }

    fn raw(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    #[track_caller]
    fn until(what: impl Fn() -> bool) {
        let late = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < late, "it did not happen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_that_was_stopped_with_its_parent_runs_with_it() {
        let script = "sleep 1000 & wait";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let tree = Tree(child);
        let root = Subject::now(Pid(tree.0.id())).unwrap();
        until(|| below(root.pid()).len() == 1);
        let all = || [below(root.pid()).remove(0).stat().unwrap(), root.stat().unwrap()];
        for it in below(root.pid()).iter().chain([&root]) {
            it.held.signal(19).unwrap();
        }
        until(|| all().iter().all(|it| it.state == 'T'));
        let_run(&root);
        until(|| all().iter().all(|it| it.state != 'T'));
    }
}
