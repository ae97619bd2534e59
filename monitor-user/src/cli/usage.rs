//! Errors of the command line, in one line: what is wrong, and the nearest that is right.
//!
//! clap knows what is wrong; it tells it in five lines. Help and version pass through.

use super::args::Cli;
use super::exit::{Exit, Failure};
use super::output;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use monitor_model::name;
use std::error::Error;

/// Prints what was asked for, or says what is wrong.
pub fn told(error: &clap::Error) -> Result<Exit, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(error.render().to_string().as_bytes())
        }
        _ => Err(Failure::usage(line(error))),
    }
}

fn line(error: &clap::Error) -> String {
    use ContextKind::{InvalidArg, InvalidSubcommand, InvalidValue};
    let written = |kind| text(error, kind).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidValue if written(InvalidValue).is_empty() => {
            format!("{} needs a value", written(InvalidArg))
        }
        ErrorKind::InvalidValue => {
            let what = option(&written(InvalidArg));
            unknown(&what, &written(InvalidValue), &valid(error, ContextKind::ValidValue))
        }
        ErrorKind::InvalidSubcommand => {
            let (_, commands) = within(error);
            unknown("command", &written(InvalidSubcommand), &commands)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let (name, commands) = within(error);
            format!("{name} needs a command: there are {}", commands.join(", "))
        }
        ErrorKind::ValueValidation => {
            let why = plain(&error.source().map(ToString::to_string).unwrap_or_default());
            format!("{} {:?}: {why}", option(&written(InvalidArg)), written(InvalidValue))
        }
        ErrorKind::UnknownArgument => too_much(error, &written(InvalidArg)),
        // Of an option that another one requires clap tells only the name.
        ErrorKind::MissingRequiredArgument if valid(error, InvalidArg)[..] == ["--disk"] => {
            "--writeback needs --disk too".into()
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{} is missing; see monitor --help", valid(error, InvalidArg).join(", "))
        }
        _ => first_line(&error.render().to_string()),
    }
}

/// A word that nobody knows.
fn too_much(error: &clap::Error, written: &str) -> String {
    match text(error, ContextKind::SuggestedArg) {
        Some(nearest) => unknown("option", written, &[nearest]),
        None if written.starts_with('-') => {
            format!("there is no option {written:?}; see monitor --help")
        }
        None if error.render().to_string().contains("-- <COMMAND>") => {
            "-- goes before the command: monitor run -- COMMAND ARGS...".into()
        }
        None => format!("{written:?} is a word too many; see monitor --help"),
    }
}

/// The command that wants another after it, and those that there are.
fn within(error: &clap::Error) -> (String, Vec<String>) {
    let text = error.render().to_string();
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.into_iter().flat_map(str::split_whitespace);
    let mut command = Cli::command();
    let mut name = String::from("monitor");
    for word in words.skip(1).take_while(|word| !word.starts_with(['[', '<', '-'])) {
        name = format!("{name} {word}");
        command = command.find_subcommand(word).cloned().unwrap_or(command);
    }
    let told = command.get_subcommands().filter(|it| !it.is_hide_set());
    (name, told.map(|it| it.get_name().to_owned()).collect())
}

/// What the standard library and clap say of a number, in words.
fn plain(why: &str) -> String {
    match why {
        _ if why.starts_with('-') => "below zero".into(),
        _ if why.contains("invalid digit") => "write a whole number".into(),
        _ if why.contains(" is not in 1..") => "the least is 1".into(),
        _ if why.contains(" is not in ") || why.contains("too large") => "too large".into(),
        _ => why.into(),
    }
}

fn unknown(what: &str, written: &str, valid: &[String]) -> String {
    let hint = name::hint(what, valid.iter().map(String::as_str), written);
    format!("unknown {what} {written:?}{hint}")
}

/// What an option is the name of: `format` of `--format <FORMAT>`.
fn option(argument: &str) -> String {
    let name = argument.split(' ').next().unwrap_or_default();
    name.trim_matches(['-', '[', ']', '<', '>', '.']).to_lowercase()
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    valid(error, kind).into_iter().next()
}

fn valid(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[track_caller]
    fn check(words: &str, want: &str) {
        let words = ["monitor"].into_iter().chain(words.split(' '));
        let error = Cli::try_parse_from(words).expect_err("it is wrong");
        assert_eq!(line(&error), want);
    }

    #[test]
    fn an_unknown_value_is_told_with_the_nearest() {
        check("sample --format jsn", r#"unknown format "jsn"; did you mean "json"?"#);
        check("sample --backend proc", r#"unknown backend "proc"; did you mean "procfs"?"#);
        check("watch nod", r#"unknown part "nod"; did you mean "node"?"#);
        let listed = r#"unknown format "xml": there are table, json, markdown"#;
        check("fields --format xml", listed);
    }

    #[test]
    fn an_unknown_option_or_command_too() {
        check("sample --theads", r#"unknown option "--theads"; did you mean "--threads"?"#);
        check("config shwo", r#"unknown command "shwo"; did you mean "show"?"#);
        check("config nope", r#"unknown command "nope": there are check, show"#);
        check("sampel", r#"unknown command "sampel"; did you mean "sample"?"#);
    }

    #[test]
    fn a_command_that_is_missing_is_told() {
        check("run true", "-- goes before the command: monitor run -- COMMAND ARGS...");
        check("run", "<COMMAND>... is missing; see monitor --help");
        check("run --foo -- true", r#"there is no option "--foo"; see monitor --help"#);
        check(
            "run --fromat json -- true",
            r#"unknown option "--fromat"; did you mean "--format"?"#,
        );
        check("config", "monitor config needs a command: there are check, show");
    }

    #[test]
    fn a_value_that_cannot_be_read_says_why() {
        check("watch --every 0s", r#"every "0s": the shortest is 1ms"#);
        check("watch --every fast", r#"every "fast": write a time such as 100ms, 1s or 2m"#);
        check("sample --pid x", r#"pid "x": write a whole number"#);
        check("watch --count 0", r#"count "0": the least is 1"#);
        check("sample --pid=-1", r#"pid "-1": below zero"#);
        check("sample --pid 99999999999", r#"pid "99999999999": too large"#);
    }

    #[test]
    fn what_does_not_belong_is_told_as_what_it_looks_like() {
        check("sample --top -1", r#"there is no option "-1"; see monitor --help"#);
        check("doctor extra", r#""extra" is a word too many; see monitor --help"#);
        check("sample --writeback", "--writeback needs --disk too");
    }
}
