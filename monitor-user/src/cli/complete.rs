//! Completions and manual pages, from the definition of the command line.

use super::args::{Cli, Completions, Man};
use super::exit::{Exit, Failure};
use super::output;
use clap::builder::{PossibleValuesParser, ValueHint};
use clap::{Command, CommandFactory};
use monitor_model::field::{Category, DiskField, NetField, NodeField, ProcessField};

/// Prints the completions of a shell.
pub fn completions(words: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(words.shell, &mut knowing(told(&Cli::command())), "monitor", &mut text);
    output::print(&text)
}

/// The definition without what is not for people: shells would offer it.
fn told(command: &Command) -> Command {
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned();
    Command::new("monitor")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(commands)
}

/// The definition with the names of fields in it. The parser itself takes any, and tells later
/// which one is unknown: of what, it then knows.
fn knowing(command: Command) -> Command {
    fn names<F: Category>() -> Vec<&'static str> {
        F::FIELDS.iter().map(|field| field.name).collect()
    }
    let sortable = names::<ProcessField>();
    let mut all = [names::<NodeField>(), names::<DiskField>(), names::<NetField>()].concat();
    all.extend(&sortable);
    all.sort_unstable();
    all.dedup();
    let command = command.mut_subcommand("top", |it| {
        it.mut_arg("fields", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
            .mut_arg("sort", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
    });
    ["sample", "watch", "start", "record", "replay", "export"].into_iter().fold(
        command,
        |command, name| {
            command.mut_subcommand(name, |it| {
                it.mut_arg("fields", |arg| arg.value_parser(PossibleValuesParser::new(&all)))
                    .mut_arg("sort", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
                    .mut_arg("uid", |arg| arg.value_hint(ValueHint::Username))
                    .mut_arg("device", |arg| arg.value_hint(ValueHint::Other))
            })
        },
    )
}

/// Prints the manual page, or writes that of each command too.
pub fn man(words: &Man) -> Result<Exit, Failure> {
    let Some(dir) = &words.dir else {
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(Cli::command()).render(&mut text);
        page.map_err(|error| Failure::failed(format!("cannot make the manual page: {error}")))?;
        return output::print(&text);
    };
    let cannot = |error| Failure::failed(format!("cannot write to {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(cannot)?;
    Ok(Exit::Ok)
}
