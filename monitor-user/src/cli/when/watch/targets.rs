//! The processes to watch: existing ones, or a command that is held until the rules are attached.
//!
//! In: the arguments. Out: their identities in the session, or a failure if there are none.

use super::super::super::exit::{Exit, Failure};
use super::super::super::output::notice;
use super::super::args::WhenArgs;
use super::super::command::HeldCommand;
use super::WhenSession;
use monitor_backend::Backend as _;
use monitor_backends::procfs;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::id::{Identity, Pid};
use monitor_model::read_spec::ReadSpec;
use monitor_sampling::filter::Filter;

impl WhenSession {
    /// Finds the processes, or starts the command and holds it.
    pub(super) fn choose_targets(&mut self, args: &WhenArgs) -> Result<Exit, Failure> {
        if !args.command.is_empty() {
            let command = HeldCommand::start(&args.command)?;
            self.taps.hold_at_exec()?;
            self.taps.watch_new_process(command.pid())?;
            self.command = Some(command);
            return Ok(Exit::Ok);
        }
        let mut absent = Vec::new();
        for pid in args.pid.iter().map(|pid| Pid(*pid)) {
            match procfs::start_time(pid) {
                Some(start) => self.processes.push(Identity { pid, start }),
                None => absent.push(pid.0.to_string()),
            }
        }
        if !args.comm.is_empty() {
            self.processes.extend(processes_named(&args.comm)?);
        }
        if self.processes.is_empty() {
            let message = match (args.pid.is_empty(), args.comm.is_empty()) {
                (true, true) => {
                    let why = "no process selected: use --pid, --comm or -- COMMAND";
                    return Err(Failure::usage(why));
                }
                (false, _) => format!("no process {}", absent.join(", ")),
                (true, false) => format!("no process named {}", args.comm.join(" or ")),
            };
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        self.taps.hold_at_exec()?;
        self.taps.watch_processes(&self.processes.iter().map(|id| id.pid).collect());
        if absent.is_empty() {
            return Ok(Exit::Ok);
        }
        notice(&format!("no process {}", absent.join(", ")));
        Ok(Exit::Partial)
    }
}

/// The processes with these command names.
fn processes_named(comms: &[String]) -> Result<Vec<Identity>, Failure> {
    let filter = Filter { comms: comms.to_vec(), ..Filter::default() };
    let mut backend = Procfs::open(Root::default())?;
    let sample = backend.read(&ReadSpec { processes: true, ..ReadSpec::default() })?;
    let own = std::process::id();
    let matching = sample.processes.iter().filter(|it| it.id.pid.0 != own && filter.admits(it));
    Ok(matching.map(|it| it.id).collect())
}
