//! Completions and manual pages, from the definition of the command line.

use super::args::{Cli, Completions, Man};
use super::exit::{Exit, Failure};
use super::output;
use clap::CommandFactory;

/// Prints the completions of a shell.
pub fn completions(words: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(words.shell, &mut Cli::command(), "monitor", &mut text);
    output::print(&text)
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
