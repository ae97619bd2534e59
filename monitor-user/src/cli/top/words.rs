//! The words of `top`, as they were written.

use crate::cli::args::{Reader, interval, names};
use crate::cli::exit;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use monitor_model::group::By;
use monitor_tui::key;
use std::path::PathBuf;
use std::time::Duration;

/// `top`.
#[derive(Debug, Parser)]
#[command(after_help = exit::HELP, after_long_help = keys())]
pub struct Top {
    /// Time from one reading to the next, such as 500ms or 2m; 1s, or that of the recording
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Option<Duration>,
    /// Play this recording as if it happened now; [ and ] go back and forward in it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["local", "socket", "backend"])]
    pub replay: Option<PathBuf>,
    /// Show only what fits this condition, such as: cpu > 10 and comm ~ mpi
    #[arg(long, value_name = "CONDITION")]
    pub filter: Option<String>,
    /// Sort by this field, largest first; +FIELD smallest first
    #[arg(long, value_name = "[+|-]FIELD", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Show these columns (see: monitor fields)
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Show children below their parents
    #[arg(long)]
    pub tree: bool,
    /// Add up processes that have this in common
    #[arg(long, value_name = "WHAT", value_parser = names::<By>(&By::NAMES))]
    pub group_by: Option<By>,
    /// Colours for a dark or a light background, or none
    #[arg(long, default_value = "auto",
        value_parser = PossibleValuesParser::new(["auto", "dark", "light", "plain"]))]
    pub theme: String,
    /// Draw with letters alone, as where the locale is not of UTF-8
    #[arg(long)]
    pub ascii: bool,
    /// Who reads.
    #[command(flatten)]
    pub reader: Reader,
}

/// The keys, for the manual and the long help; the same table as on the screen.
fn keys() -> String {
    let line = |row: &key::Binding| format!("  {:<14} {}\n", key::names(row), row.help);
    let keys: String = key::BINDINGS.iter().map(line).collect();
    format!("Keys:\n{keys}\n{}", exit::HELP)
}
