//! `monitor job`: the parallel jobs of this node.
//!
//! In: processes with their ranks, read here with the rights of the user; an environment. Out: the
//! list of jobs, the process table of one, its merged call stacks and calls of MPI, ranks that are
//! stopped, continued or signalled, and what directives make of an environment. Only `query` and
//! `notify` connect to the runtime of a job.

mod act_nodes;
pub mod args;
mod attach;
mod background;
mod calls;
mod calls_json;
mod calls_nodes;
mod calls_text;
mod doctor;
mod end;
mod ended;
mod env;
mod environment_event;
mod event_code;
mod events;
mod events_nodes;
mod held_background;
mod history;
mod hold;
mod hold_report;
mod host;
mod host_command;
mod host_connection;
mod host_guard;
mod host_usage;
mod job_heading;
pub mod job_on_nodes;
mod joined_job;
mod launch;
mod launch_args;
mod launch_background;
mod launched_ranks;
mod launcher_host;
mod launcher_labels;
mod list;
mod list_nodes;
mod log;
mod measure;
mod measured_calls;
mod merged_stacks;
mod node_job;
mod notify;
mod output;
mod output_keeper;
mod passed_signals;
mod pmix_background;
mod pmix_job;
mod pmix_launch;
mod pmix_output;
mod pmix_server;
mod query;
mod rank_errors;
mod rank_rules;
mod reader;
mod release;
mod rendezvous;
mod service_monitors;
mod show;
mod show_nodes;
mod show_text;
mod signal;
mod stacks;
mod stacks_export;
mod stacks_nodes;
mod stacks_text;
mod tagged_lines;
mod target;
mod tool_connection;
mod tool_daemon;
mod tool_turn;

use super::exit::{Exit, Failure};
use act_nodes::{RankAction, act_nodes};
use args::{JobArgs, JobCommand, JobNodesArgs};

/// Runs a command of the group. Returns the exit code; of `launch`, that of the launcher, of
/// `attach`, that of its daemons.
pub fn job(args: &JobArgs) -> Result<u8, Failure> {
    let exit = match &args.command {
        JobCommand::Launch(args) => return launch::launch(args),
        JobCommand::Host(args) => return host::host(args),
        JobCommand::HostGuard(args) => return host_guard::host_guard(args),
        JobCommand::LauncherHost(args) => return launcher_host::launcher_host(args),
        JobCommand::OutputKeeper(args) => return output_keeper::output_keeper(args),
        JobCommand::Attach(args) => return attach::attach(args),
        JobCommand::List(args) => match (args.ended, &args.on_nodes.nodes) {
            (Some(last), _) => ended::list_ended(args, last),
            (None, Some(nodes)) => list_nodes::list_nodes(args, (nodes, args.on_nodes.within)),
            (None, None) => list::list(args),
        },
        JobCommand::Events(args) => match &args.nodes {
            Some(nodes) => events_nodes::events_nodes(args, (nodes, args.within)),
            None => events::events(args),
        },
        JobCommand::Show(args) => match &args.on_nodes.nodes {
            Some(nodes) => show_nodes::show_nodes(args, (nodes, args.on_nodes.within)),
            None => show::show(args),
        },
        JobCommand::Stacks(args) => stacks::stacks(args),
        JobCommand::Calls(args) => match &args.on_nodes.nodes {
            Some(nodes) => calls_nodes::calls_nodes(args, (nodes, args.on_nodes.within)),
            None => calls::calls(args),
        },
        JobCommand::Hold(args) => on_nodes(RankAction::Hold, &args.job, &args.on_nodes)
            .unwrap_or_else(|| hold::hold(&args.job)),
        JobCommand::Release(args) => on_nodes(RankAction::Release, &args.job, &args.on_nodes)
            .unwrap_or_else(|| release::release(&args.job)),
        JobCommand::Signal(args) => {
            on_nodes(RankAction::Signal(args.signal), &args.job, &args.on_nodes)
                .unwrap_or_else(|| signal::signal(args))
        }
        JobCommand::End(args) => {
            on_nodes(RankAction::End, &args.job, &args.on_nodes).unwrap_or_else(|| end::end(args))
        }
        JobCommand::Output(args) => output::output(args),
        JobCommand::Query(args) => query::query(args),
        JobCommand::Notify(args) => notify::notify(args),
        JobCommand::Log(args) => log::log(args),
        JobCommand::Rendezvous(args) => rendezvous::rendezvous(args),
        JobCommand::Doctor(args) => doctor::doctor(args),
        JobCommand::Env(args) => env::explain(args),
    };
    exit.map(|exit| exit as u8)
}

/// Acts on ranks on other nodes, if some are named.
fn on_nodes(action: RankAction, job: &str, on: &JobNodesArgs) -> Option<Result<Exit, Failure>> {
    let nodes = on.nodes.as_deref()?;
    Some(act_nodes(action, job, ((nodes, on.within), on.daemon.socket.as_deref())))
}
