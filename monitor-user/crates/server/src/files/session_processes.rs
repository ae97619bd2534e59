//! Which processes of a sample are in sessions.
//!
//! In: the processes of a sample, and the launchers of sessions that a user may see. Out: the
//! session of each process below a launcher, also of one that has forked away: the launcher is the
//! reaper of all that it has started. The launcher itself is in no session.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// A session whose processes are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLauncher {
    /// The process of its launcher.
    pub pid: u32,
    /// The number of the session.
    pub number: u32,
    /// The number of its job, as `id` has it.
    pub job: String,
}

/// The sessions of processes.
pub struct SessionProcesses<'l>(HashMap<u64, &'l SessionLauncher>);

impl<'l> SessionProcesses<'l> {
    /// Those of these processes.
    pub fn find(processes: &[Map<String, Value>], launchers: &'l [SessionLauncher]) -> Self {
        let number = |it: &Map<String, Value>, name: &str| it.get(name).and_then(Value::as_u64);
        let mut children: HashMap<u64, Vec<u64>> = HashMap::new();
        for process in processes.iter().filter(|_| !launchers.is_empty()) {
            if let (Some(pid), Some(parent)) = (number(process, "pid"), number(process, "ppid")) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut found = HashMap::new();
        for launcher in launchers {
            let mut parents = vec![u64::from(launcher.pid)];
            while let Some(parent) = parents.pop() {
                // Each process has one parent, so each is taken once.
                for pid in children.remove(&parent).into_iter().flatten() {
                    found.insert(pid, launcher);
                    parents.push(pid);
                }
            }
        }
        Self(found)
    }

    /// The session of a process.
    pub fn session(&self, process: &Map<String, Value>) -> Option<&'l SessionLauncher> {
        self.0.get(&process.get("pid")?.as_u64()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, ppid: u32) -> Map<String, Value> {
        let values = [("pid", pid), ("ppid", ppid)];
        values.into_iter().map(|(name, it)| (name.to_owned(), Value::from(it))).collect()
    }

    #[test]
    fn all_processes_below_a_launcher_are_in_its_session() {
        let launcher = |pid, number| SessionLauncher { pid, number, job: String::new() };
        let launchers = [launcher(10, 0), launcher(20, 7)];
        let all = [(10, 1), (11, 10), (12, 11), (13, 10), (21, 20), (30, 1), (31, 31)];
        let all = all.map(|(pid, ppid)| process(pid, ppid));
        let found = SessionProcesses::find(&all, &launchers);
        let numbers = all.each_ref().map(|it| found.session(it).map(|it| it.number));
        assert_eq!(numbers, [None, Some(0), Some(0), Some(0), Some(7), None, None]);
        let none = SessionProcesses::find(&all, &[]);
        assert_eq!(none.session(&all[1]), None);
    }
}
