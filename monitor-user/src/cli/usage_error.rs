//! Errors of the command line in one line: what is wrong, and the nearest valid name.
//!
//! In: clap's error, which would print five lines. Out: a `Failure`. Help and version are printed
//! as clap renders them.

use super::args::Cli;
use super::exit::{Exit, Failure};
use super::output;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use monitor_model::name;
use std::error::Error;

/// Prints help or version if requested; else returns the error in one line.
pub fn help_or_failure(error: &clap::Error) -> Result<Exit, Failure> {
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
            let (_, commands) = subcommands(error);
            unknown("command", &written(InvalidSubcommand), &commands)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let (name, commands) = subcommands(error);
            format!("{name} needs a command: there are {}", commands.join(", "))
        }
        ErrorKind::ValueValidation => {
            let why = number_error(&error.source().map(ToString::to_string).unwrap_or_default());
            format!("{} {:?}: {why}", option(&written(InvalidArg)), written(InvalidValue))
        }
        ErrorKind::UnknownArgument => unexpected(error, &written(InvalidArg)),
        // clap names only the missing option, not the one that requires it.
        ErrorKind::MissingRequiredArgument if valid(error, InvalidArg)[..] == ["--disk"] => {
            "--writeback requires --disk".into()
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{} is missing; see monitor --help", valid(error, InvalidArg).join(", "))
        }
        _ => first_line(&error.render().to_string()),
    }
}

/// The message for an argument that the command does not take.
fn unexpected(error: &clap::Error, written: &str) -> String {
    match text(error, ContextKind::SuggestedArg) {
        Some(nearest) => unknown("option", written, &[nearest]),
        None if written.starts_with('-') => {
            format!("unknown option {written:?}; see monitor --help")
        }
        None if error.render().to_string().contains("-- <COMMAND>") => {
            "-- goes before the command: monitor run -- COMMAND ARGS...".into()
        }
        None => format!("unexpected argument {written:?}; see monitor --help"),
    }
}

/// The command that lacks a subcommand, and its visible subcommands.
fn subcommands(error: &clap::Error) -> (String, Vec<String>) {
    let text = error.render().to_string();
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.into_iter().flat_map(str::split_whitespace);
    let mut command = Cli::command();
    let mut name = String::from("monitor");
    for word in words.skip(1).take_while(|word| !word.starts_with(['[', '<', '-'])) {
        name = format!("{name} {word}");
        command = command.find_subcommand(word).cloned().unwrap_or(command);
    }
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    (name, shown.map(|it| it.get_name().to_owned()).collect())
}

/// A shorter form of what the standard library and clap report of a number.
fn number_error(why: &str) -> String {
    match why {
        _ if why.starts_with('-') => "must not be negative".into(),
        _ if why.contains("invalid digit") => "expected a whole number".into(),
        _ if why.contains(" is not in 1..") => "the minimum is 1".into(),
        _ if why.contains(" is not in ") || why.contains("too large") => "too large".into(),
        _ => why.into(),
    }
}

fn unknown(what: &str, written: &str, valid: &[String]) -> String {
    let hint = name::hint(what, valid.iter().map(String::as_str), written);
    format!("unknown {what} {written:?}{hint}")
}

/// The bare name of an option: `format` of `--format <FORMAT>`.
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
        let error = Cli::try_parse_from(words).expect_err("the arguments are invalid");
        assert_eq!(line(&error), want);
    }

    #[test]
    fn an_unknown_value_is_reported_with_the_nearest_name() {
        check("sample --format jsn", r#"unknown format "jsn"; did you mean "json"?"#);
        check("sample --backend proc", r#"unknown backend "proc"; did you mean "procfs"?"#);
        check("watch nod", r#"unknown part "nod"; did you mean "node"?"#);
        let listed = r#"unknown format "xml": there are table, json, markdown"#;
        check("fields --format xml", listed);
    }

    #[test]
    fn an_unknown_option_or_command_is_reported_with_the_nearest_name() {
        check("sample --theads", r#"unknown option "--theads"; did you mean "--threads"?"#);
        check("config shwo", r#"unknown command "shwo"; did you mean "show"?"#);
        check("config nope", r#"unknown command "nope": there are check, show"#);
        check("sampel", r#"unknown command "sampel"; did you mean "sample"?"#);
    }

    #[test]
    fn a_missing_command_is_reported() {
        check("run true", "-- goes before the command: monitor run -- COMMAND ARGS...");
        check("run", "<COMMAND>... is missing; see monitor --help");
        check("run --foo -- true", r#"unknown option "--foo"; see monitor --help"#);
        check(
            "run --fromat json -- true",
            r#"unknown option "--fromat"; did you mean "--format"?"#,
        );
        check("config", "monitor config needs a command: there are check, show");
    }

    #[test]
    fn a_malformed_value_is_reported_with_the_reason() {
        check("watch --every 0s", r#"every "0s": the minimum is 1ms"#);
        check("watch --every fast", r#"every "fast": expected a time such as 100ms, 1s or 2m"#);
        check("sample --pid x", r#"pid "x": expected a whole number"#);
        check("watch --count 0", r#"count "0": the minimum is 1"#);
        check("sample --pid=-1", r#"pid "-1": must not be negative"#);
        check("sample --pid 99999999999", r#"pid "99999999999": too large"#);
    }

    #[test]
    fn an_unexpected_argument_is_reported_as_option_or_argument() {
        check("sample --top -1", r#"unknown option "-1"; see monitor --help"#);
        check("doctor extra", r#"unexpected argument "extra"; see monitor --help"#);
        check("sample --writeback", "--writeback requires --disk");
    }
}
