//! The daemons of tools beside ranks, which end with their tool.
//!
//! In: a tool and what to start; that the tool has gone. Out: the processes, each in a group of its
//! own. They and the processes of their groups get SIGTERM, and SIGKILL if they do not end; if this
//! process is killed, the kernel kills them, and not their children.

use crate::grouped_process::GroupedProcess;
use crate::process_ref::raw_pid;
use crate::rank_program::program_processes;
use crate::tool_daemon::DaemonPlace;
use crate::{ControlError, DaemonSpec, StartedDaemon, ToolId, start};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a daemon may take to end after SIGTERM.
const END: Duration = Duration::from_secs(5);
/// The same for all of them when this process ends, for which the service waits.
const EXIT_END: Duration = Duration::from_millis(200);

/// Between two checks of what was killed.
const AFTER_KILL: Duration = Duration::from_millis(500);
/// Between two checks of a group, whose leader may have ended.
const PAUSE: Duration = Duration::from_millis(10);

/// The daemons.
#[derive(Default)]
pub(super) struct DaemonTable {
    running: BTreeMap<ToolId, Vec<GroupedProcess>>,
    /// Those whose tool has gone, with the time at which they are killed.
    ending: Vec<(Instant, GroupedProcess)>,
}

impl DaemonTable {
    /// Starts the daemons of a tool: all, or none.
    pub fn start(
        &mut self,
        tool: ToolId,
        spec: &DaemonSpec,
    ) -> Result<Vec<StartedDaemon>, ControlError> {
        let ranks = program_processes(&spec.ranks);
        let places = DaemonPlace::all((&spec.job, spec.runtime), &ranks, spec.per);
        let mut started = Vec::new();
        let mut processes = Vec::new();
        for place in places {
            let mut command = start::command(&spec.program)?;
            let cgroups = place.prepare(&mut command);
            match GroupedProcess::start_unread(&mut command) {
                Ok(process) => {
                    let (pid, outside) = (process.pid().0, cgroups.missed(process.pid()));
                    started.push(StartedDaemon { rank: place.rank(), pid, outside });
                    processes.push(process);
                }
                Err(error) => {
                    processes.iter_mut().for_each(GroupedProcess::kill);
                    return Err(start::start_error(&spec.program, &error));
                }
            }
        }
        self.running.entry(tool).or_default().extend(processes);
        Ok(started)
    }

    /// Reaps those that have ended with their groups, except for traced ones, which the tracer
    /// reaps; kills those that do not end in time.
    pub fn poll(&mut self, is_traced: &dyn Fn(i32) -> bool) {
        let mut runs = |it: &mut GroupedProcess| is_traced(raw_pid(it.pid())) || it.group_runs();
        for daemons in self.running.values_mut() {
            daemons.retain_mut(&mut runs);
        }
        self.running.retain(|_, daemons| !daemons.is_empty());
        self.ending.retain_mut(|(_, it)| runs(it));
        let now = Instant::now();
        for (kill_at, daemon) in &mut self.ending {
            if *kill_at <= now {
                daemon.signal(Signal::KILL);
                // The end of a child of a daemon is reported to another process: look again.
                *kill_at = now + AFTER_KILL;
            }
        }
    }

    /// When `poll` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.ending.iter().map(|(kill_at, _)| *kill_at).min()
    }

    /// Ends those of a tool.
    pub fn forget_tool(&mut self, tool: ToolId) {
        let kill_at = Instant::now() + END;
        for daemon in self.running.remove(&tool).into_iter().flatten() {
            daemon.signal(Signal::TERM);
            self.ending.push((kill_at, daemon));
        }
    }

    /// Ends all, and waits for that.
    pub fn end_all(&mut self) {
        let tools: Vec<ToolId> = self.running.keys().copied().collect();
        tools.into_iter().for_each(|tool| self.forget_tool(tool));
        let until = Instant::now() + EXIT_END;
        for (_, mut daemon) in self.ending.drain(..) {
            while daemon.group_runs() && Instant::now() < until {
                std::thread::sleep(PAUSE);
            }
            if daemon.group_runs() {
                daemon.signal(Signal::KILL);
            }
        }
    }
}
