//! Whom to watch: processes that are there, or a command that waits for us.

use super::super::super::exit::{Exit, Failure};
use super::super::super::output::say;
use super::super::command::Waiting;
use super::super::words::When;
use super::Watch;
use monitor_backend::Backend as _;
use monitor_backends::procfs;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::id::{Identity, Pid};
use monitor_model::want::Want;
use monitor_sampling::filter::Filter;

impl Watch {
    /// Finds the processes, or starts the command, which waits.
    pub(super) fn choose(&mut self, words: &When) -> Result<Exit, Failure> {
        if !words.command.is_empty() {
            let command = Waiting::start(&words.command)?;
            self.taps.hold_newcomers()?;
            self.taps.adopt(command.pid())?;
            self.command = Some(command);
            return Ok(Exit::Ok);
        }
        let mut absent = Vec::new();
        for pid in words.pid.iter().map(|pid| Pid(*pid)) {
            match procfs::started(pid) {
                Some(start) => self.processes.push(Identity { pid, start }),
                None => absent.push(pid.0.to_string()),
            }
        }
        if !words.comm.is_empty() {
            self.processes.extend(named(&words.comm)?);
        }
        if self.processes.is_empty() {
            let message = match (words.pid.is_empty(), words.comm.is_empty()) {
                (true, true) => {
                    return Err(Failure::usage("in which processes? --pid, --comm or -- COMMAND"));
                }
                (false, _) => format!("no process {}", absent.join(", ")),
                (true, false) => format!("no process is called {}", words.comm.join(" or ")),
            };
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        self.taps.hold_newcomers()?;
        self.taps.follow(&self.processes.iter().map(|id| id.pid).collect());
        if absent.is_empty() {
            return Ok(Exit::Ok);
        }
        say(&format!("no process {}", absent.join(", ")));
        Ok(Exit::Partial)
    }
}

/// The processes with these command names.
fn named(comms: &[String]) -> Result<Vec<Identity>, Failure> {
    let filter = Filter { comms: comms.to_vec(), ..Filter::default() };
    let mut backend = Procfs::open(Root::default())?;
    let sample = backend.read(&Want { processes: true, ..Want::default() })?;
    let own = std::process::id();
    let meant = sample.processes.iter().filter(|it| it.id.pid.0 != own && filter.admits(it));
    Ok(meant.map(|it| it.id).collect())
}
