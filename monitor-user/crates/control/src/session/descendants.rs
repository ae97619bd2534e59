//! All descendants of a process that is their reaper.
//!
//! In: nothing but `/proc`. Out: all of them ended. One that forks away stays a descendant, because
//! its children get this process as parent when it ends (prctl(2), `PR_SET_CHILD_SUBREAPER`).

use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use procfs::process::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Most rounds in which descendants are stopped before they are killed: one that forks without end
/// has a child in each that was not seen.
const STOP_ROUNDS: usize = 32;
/// Pause between rounds that kill.
const PAUSE: Duration = Duration::from_millis(1);
const SIGKILL: u32 = 9;
const SIGSTOP: u32 = 19;

/// A process and its start time.
type Started = (i32, u64);

/// Stops and kills all descendants, and reaps those that are children; whether none is left.
pub fn kill_all(until: Instant, mut reap: impl FnMut()) -> bool {
    loop {
        let mut stopped = BTreeSet::new();
        for _ in 0..STOP_ROUNDS {
            let fresh: Vec<_> = all().into_iter().filter(|it| !stopped.contains(it)).collect();
            if fresh.is_empty() {
                break;
            }
            fresh.iter().for_each(|it| signal(*it, SIGSTOP));
            stopped.extend(fresh);
        }
        let left = all();
        left.iter().for_each(|it| signal(*it, SIGKILL));
        reap();
        if left.is_empty() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// All descendants of this process that run; those that have ended wait for their parent.
pub fn all() -> Vec<Started> {
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    // One that has ended meanwhile has no stat.
    let stats: Vec<_> = processes.filter_map(|it| it.stat().ok()).collect();
    let mut children: BTreeMap<i32, Vec<&Stat>> = BTreeMap::new();
    for stat in &stats {
        children.entry(stat.ppid).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut parents = vec![own_pid()];
    while let Some(parent) = parents.pop() {
        // Each process has one parent, so each is taken once.
        for stat in children.remove(&parent).into_iter().flatten() {
            parents.push(stat.pid);
            if !matches!(stat.state, 'Z' | 'X') {
                found.push((stat.pid, stat.starttime));
            }
        }
    }
    found
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Sends a signal to a process, unless another one has its number by now.
fn signal((pid, started): Started, number: u32) {
    let Some(pidfd) = u32::try_from(pid).ok().and_then(|pid| PidFd::open(Pid(pid)).ok()) else {
        return;
    };
    let stat = procfs::process::Process::new(pid).and_then(|it| it.stat());
    if stat.is_ok_and(|it| it.starttime == started) {
        // It may have become another user, which no_new_privs excludes, or have ended.
        let _sent = pidfd.signal(number);
    }
}
