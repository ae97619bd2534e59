//! L9, commands: what was written becomes a plan, the plan becomes a reading, and every way to
//! end has its exit code.
//!
//! Arguments are parsed first and resolved against the fields and the host later. Each command is
//! a file.

pub mod args;
mod ask;
mod client;
mod columns;
mod complete;
mod config;
mod count;
mod doctor;
mod events;
pub mod exit;
mod fields;
mod follow;
mod hand;
mod list;
mod log;
mod output;
mod pace;
mod pen;
mod pipeline;
mod plan;
mod recording;
mod replace;
mod report;
mod run;
mod sample;
mod seen;
mod serve;
mod services;
mod settings;
mod start;
mod status;
mod target;
mod top;
mod usage;
mod waiting;
mod watch;
mod when;
mod words;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use exit::{Exit, Failure};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Runs the program: all but the process around it.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ended = match Cli::try_parse_from(words) {
        Ok(Cli { command: Some(Command::Run(args)) }) => run::run(&args),
        Ok(cli) => dispatch(cli.command).map(|exit| exit as u8),
        Err(error) => usage::told(&error).map(|exit| exit as u8),
    };
    ExitCode::from(ended.unwrap_or_else(|failure| {
        output::say(&failure.message);
        failure.exit as u8
    }))
}

/// The commands that end with a code of ours; `run` ends with that of its command.
fn dispatch(command: Option<Command>) -> Result<Exit, Failure> {
    match command {
        Some(Command::Sample(args)) => sample::sample(&args),
        Some(Command::Watch(args)) => watch::watch(&args),
        Some(Command::Top(args)) => top::top(&args),
        Some(Command::Record(args)) => recording::record(&args),
        Some(Command::Replay(args)) => recording::replay(&args),
        Some(Command::Report(args)) => recording::report(&args),
        Some(Command::Export(args)) => recording::export(&args),
        Some(Command::Save(args)) => recording::save(&args),
        Some(Command::Start(args)) => start::start(&args),
        Some(Command::List(args)) => list::list(&args),
        Some(Command::Cancel(args)) => list::cancel(&args),
        Some(Command::Events(args)) => events::events(&args),
        Some(Command::Ask(args)) => ask::ask(&args),
        Some(Command::Services(args)) => services::services(&args),
        Some(Command::When(args)) => when::when(&args),
        Some(Command::Serve(args)) => serve::serve(&args),
        Some(Command::Status(args)) => status::status(&args),
        Some(Command::Config(args)) => config::config(&args),
        Some(Command::Fields(args)) => fields::fields(&args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Hand(args)) => hand::hand(&args),
        Some(Command::Completions(args)) => complete::completions(&args),
        Some(Command::Man(args)) => complete::man(&args),
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => {
            top::top(&top::words::Top::parse_from(["monitor top"]))
        }
        None | Some(Command::Run(_)) => {
            output::print(Cli::command().render_help().to_string().as_bytes())
        }
    }
}
