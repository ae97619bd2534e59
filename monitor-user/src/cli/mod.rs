//! The commands: parses arguments, runs the command, maps results to exit codes.
//!
//! Arguments are parsed first and resolved against the field lists and the host later. Each
//! command has a file or a folder.

pub mod args;
mod ask;
#[cfg(feature = "nats")]
mod bus;
mod client;
mod cluster;
mod columns;
mod complete;
mod config;
mod conformance;
mod doctor;
mod event_writer;
pub mod exit;
mod fields;
mod files;
mod folded_events;
mod followed_nodes;
mod forwarded_signals;
mod gdb;
mod job;
mod log;
mod migrate;
mod monitors;
mod monitors_nodes;
mod node_blocks;
mod node_groups;
mod node_replies;
mod nodes;
mod output;
mod pipeline;
mod plan;
mod prefixed_lines;
mod progress;
mod recording;
mod replace;
mod run;
mod run_loop;
mod run_nodes;
mod run_report;
mod sample_lines;
mod sample_nodes;
mod send;
mod series_printer;
mod serve;
mod services;
mod status;
mod top;
mod usage_error;
mod usage_source;
mod watch;
mod watch_nodes;
mod when;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use exit::{Exit, Failure};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Parses the arguments and runs the command. Returns the exit code of the process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ended = match Cli::try_parse_from(args) {
        Ok(Cli { command: Some(Command::Run(args)) }) => match &args.on_nodes.nodes {
            Some(set) => run_nodes::run_nodes(&args, set),
            None => run::run(&args),
        },
        Ok(Cli { command: Some(Command::When(args)) }) => when::when(&args),
        Ok(Cli { command: Some(Command::Job(args)) }) => job::job(&args),
        Ok(cli) => dispatch(cli.command).map(|exit| exit as u8),
        Err(error) => usage_error::help_or_failure(&error).map(|exit| exit as u8),
    };
    ExitCode::from(ended.unwrap_or_else(|failure| {
        output::notice(&failure.message);
        failure.exit as u8
    }))
}

/// Runs a command that ends with an `Exit`. `run` and `when` are none: they end with the code of
/// their child.
fn dispatch(command: Option<Command>) -> Result<Exit, Failure> {
    match command {
        Some(Command::Sample(args)) => watch::sample(&args),
        Some(Command::Watch(args)) => match &args.on_nodes.nodes {
            Some(nodes) => watch_nodes::watch_nodes(&args, (nodes, args.on_nodes.within)),
            None => watch::watch(&args),
        },
        Some(Command::Top(args)) => top::top(&args),
        Some(Command::Record(args)) => recording::record(&args),
        Some(Command::Replay(args)) => recording::replay(&args),
        Some(Command::Report(args)) => recording::report(&args),
        Some(Command::Export(args)) => recording::export(&args),
        Some(Command::Save(args)) => recording::save(&args),
        Some(Command::Start(args)) => match &args.on_nodes.nodes {
            Some(nodes) => monitors_nodes::start(&args, (nodes, args.on_nodes.within)),
            None => monitors::start(&args),
        },
        Some(Command::List(args)) => match &args.on_nodes.nodes {
            Some(nodes) => monitors_nodes::list(&args.report, (nodes, args.on_nodes.within)),
            None => monitors::list(&args.report),
        },
        Some(Command::Cancel(args)) => match &args.on_nodes.nodes {
            Some(nodes) => monitors_nodes::cancel(&args, (nodes, args.on_nodes.within)),
            None => monitors::cancel(&args),
        },
        Some(Command::Events(args)) => match &args.on_nodes.nodes {
            Some(nodes) => monitors_nodes::events(&args, (nodes, args.on_nodes.within)),
            None => monitors::events(&args),
        },
        Some(Command::Ask(args)) => ask::ask(&args),
        Some(Command::Nodes(args)) => nodes::nodes(&args),
        Some(Command::Send(args)) => send::send(&args),
        Some(Command::Migrate(args)) => migrate::migrate(&args),
        Some(Command::Cluster(args)) => cluster::cluster(&args),
        Some(Command::Gdb(args)) => gdb::gdb(&args),
        Some(Command::Services(args)) => services::services(&args),
        Some(Command::Conformance(args)) => conformance::conformance(&args),
        Some(Command::ConformanceTarget) => conformance::target::main(),
        Some(Command::Files(args)) => files::files(&args),
        Some(Command::Serve(args)) => serve::serve(&args),
        Some(Command::Status(args)) => status::status(&args),
        Some(Command::Config(args)) => config::config(&args),
        Some(Command::Fields(args)) => fields::fields(&args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::UserWorker(args)) => serve::user_worker(&args),
        Some(Command::Completions(args)) => complete::completions(&args),
        Some(Command::Man(args)) => complete::man(&args),
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => {
            top::top(&top::args::TopArgs::parse_from(["monitor top"]))
        }
        None | Some(Command::Run(_) | Command::When(_) | Command::Job(_)) => {
            output::print(Cli::command().render_help().to_string().as_bytes())
        }
    }
}
