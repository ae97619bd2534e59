//! Errors of the command line in one line.
//!
//! In: clap's error, which it would print in several lines. Out: a `Failure` with the same text.
//! Help and version are printed as clap renders them.

use super::exit::{Exit, Failure};
use super::output;
use clap::error::ErrorKind;

/// Prints help or version if requested; else returns the error in one line.
pub fn help_or_failure(error: &clap::Error) -> Result<Exit, Failure> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::print(text.as_bytes()),
        _ => Err(Failure::usage(one_line(error.kind(), &text))),
    }
}

/// The error, the valid values and the nearest one; else the usage, for an unexpected argument.
fn one_line(kind: ErrorKind, text: &str) -> String {
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // The text is the whole help.
        return format!("a command is missing; see {} --help", command(text));
    }
    let shows_usage = kind == ErrorKind::UnknownArgument && !text.contains("tip: ");
    let mut line = String::new();
    for part in text.lines().map(str::trim) {
        let is_hidden_usage = part.starts_with("Usage: ") && !shows_usage;
        if part.is_empty() || part.starts_with("For more information") || is_hidden_usage {
            continue;
        }
        let follows = part.starts_with('[') || line.ends_with(':');
        line += if line.is_empty() || follows { "" } else { ";" };
        line += if line.is_empty() { "" } else { " " };
        line += part.trim_start_matches("error: ");
    }
    if kind == ErrorKind::MissingRequiredArgument {
        line += &format!("; see {} --help", command(text));
    }
    line
}

/// The command that the usage in the text begins with: `monitor config check`.
fn command(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let is_name = |word: &&str| word.starts_with(|it: char| it.is_ascii_lowercase());
    usage.unwrap_or("monitor").split(' ').take_while(is_name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::Parser;

    #[track_caller]
    fn check(words: &str, want: &str) {
        let words = ["monitor"].into_iter().chain(words.split(' '));
        let error = Cli::try_parse_from(words).expect_err("the arguments are invalid");
        assert_eq!(one_line(error.kind(), &error.render().to_string()), want);
    }

    #[test]
    fn an_unknown_value_is_reported_with_the_nearest_name() {
        let listed = "invalid value 'jsn' for '--format <FORMAT>' [possible values: table, json, \
                      markdown]; tip: a similar value exists: 'json'";
        check("fields --format jsn", listed);
        let listed = "invalid value 'xml' for '--format <FORMAT>' [possible values: table, json, \
                      markdown]";
        check("fields --format xml", listed);
    }

    #[test]
    fn an_unknown_option_or_command_is_reported_with_the_nearest_name() {
        let tip = "tip: a similar argument exists: '--threads'";
        check("sample --theads", &format!("unexpected argument '--theads' found; {tip}"));
        let tip = "tip: a similar subcommand exists: 'show'";
        check("config shwo", &format!("unrecognized subcommand 'shwo'; {tip}"));
        check("config nope", "unrecognized subcommand 'nope'");
    }

    #[test]
    fn a_missing_command_is_reported() {
        let usage = "Usage: monitor run [OPTIONS] -- <COMMAND>...";
        check("run true", &format!("unexpected argument 'true' found; {usage}"));
        let missing = "the following required arguments were not provided:";
        check("run", &format!("{missing} <COMMAND>...; see monitor run --help"));
        check("start m", &format!("{missing} --every <TIME>; see monitor start --help"));
        check("config", "a command is missing; see monitor config --help");
    }

    #[test]
    fn a_malformed_value_is_reported_with_the_reason() {
        let of = |value: &str| format!("invalid value '{value}' for '--every <TIME>'");
        check("watch --every 0s", &format!("{}: the minimum is 1ms", of("0s")));
        let want = format!("{}: expected a time such as 100ms, 1s or 2m", of("fast"));
        check("watch --every fast", &want);
        check(
            "sample --pid x",
            "invalid value 'x' for '--pid <PID,…>': invalid digit found in string",
        );
    }
}
