//! `monitor completions` and `monitor man`: shell completions and manual pages, generated from the
//! definition of the command line.

use super::args::{Cli, CompletionsArgs, ManArgs};
use super::exit::{Exit, Failure};
use super::output;
use clap::builder::{PossibleValuesParser, ValueHint};
use clap::{Command, CommandFactory};
use monitor_model::field::{Category, DiskField, NetField, NodeField, ProcessField};

/// Prints the completions for a shell.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut with_field_names(visible(&Cli::command())),
        "monitor",
        &mut text,
    );
    output::print(&text)
}

/// The definition without hidden commands, which shells would offer.
fn visible(command: &Command) -> Command {
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned();
    Command::new("monitor")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(commands)
}

/// The definition with the names of fields. The parser itself accepts any name; `cli/plan` checks
/// it later, when the category is known.
fn with_field_names(command: Command) -> Command {
    fn names<F: Category>() -> Vec<&'static str> {
        F::FIELDS.iter().map(|field| field.name).collect()
    }
    let sortable: Vec<_> = ProcessField::suggested_names().collect();
    let mut all = [names::<NodeField>(), names::<DiskField>(), names::<NetField>()].concat();
    all.extend(&sortable);
    all.sort_unstable();
    all.dedup();
    let command = command.mut_subcommand("top", |top| {
        top.mut_arg("fields", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
            .mut_arg("sort", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
    });
    ["sample", "watch", "start", "record", "replay", "export"].into_iter().fold(
        command,
        |command, name| {
            command.mut_subcommand(name, |command| {
                command
                    .mut_arg("fields", |arg| arg.value_parser(PossibleValuesParser::new(&all)))
                    .mut_arg("sort", |arg| arg.value_parser(PossibleValuesParser::new(&sortable)))
                    .mut_arg("uid", |arg| arg.value_hint(ValueHint::Username))
                    .mut_arg("device", |arg| arg.value_hint(ValueHint::Other))
            })
        },
    )
}

/// Prints the manual page, or writes the pages of all commands to a folder.
pub fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let Some(dir) = &args.dir else {
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
