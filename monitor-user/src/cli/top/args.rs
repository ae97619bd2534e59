//! Arguments of `monitor top`.
//!
//! In: the command line. Out: the same, typed.

use crate::cli::args::{SourceArgs, interval, names};
use crate::cli::exit;
use crate::cli::node_groups::node_set;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use monitor_model::group::GroupBy;
use monitor_tui::{cluster, key};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `top`.
#[derive(Debug, Parser)]
#[command(after_help = exit::HELP, after_long_help = keys())]
pub struct TopArgs {
    /// Interval between readings, such as 500ms or 2m; default: 1s, or that of the recording
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Option<Duration>,
    /// Play a recording; [ and ] step back and forward. With --nodes: FILE.NODE of each node
    #[arg(long, value_name = "FILE", conflicts_with_all = ["local", "socket", "backend"])]
    pub replay: Option<PathBuf>,
    /// Show the whole cluster, and of its nodes these, such as n[1-3],m7 or @*; on a gateway, or
    /// with --replay the recordings of monitor record --nodes
    #[arg(long, value_name = "SET", value_parser = node_set,
        conflicts_with_all = ["local", "backend"])]
    pub nodes: Option<String>,
    /// Show only rows that match this condition, such as: cpu > 10 and comm ~ mpi
    #[arg(long, value_name = "CONDITION")]
    pub filter: Option<String>,
    /// Sort by this field, largest first; +FIELD: smallest first
    #[arg(long, value_name = "[+|-]FIELD", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Show these columns (see: monitor fields)
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// Show children below their parents
    #[arg(long)]
    pub tree: bool,
    /// Add up processes by this property
    #[arg(long, value_name = "WHAT", value_parser = names::<GroupBy>(&GroupBy::NAMES))]
    pub group_by: Option<GroupBy>,
    /// Colours for a dark or a light background; plain: no colours
    #[arg(long, default_value = "auto",
        value_parser = PossibleValuesParser::new(["auto", "dark", "light", "plain"]))]
    pub theme: String,
    /// Draw with ASCII characters only; default if the locale is not UTF-8
    #[arg(long)]
    pub ascii: bool,
    /// Daemon or local backend.
    #[command(flatten)]
    pub reader: SourceArgs,
}

/// The key bindings for manual and long help, from the table that the screen uses.
fn keys() -> String {
    let line = |row: &key::Binding| format!("  {:<14} {}\n", key::names(row), row.help);
    let keys: String = key::BINDINGS.iter().map(line).collect();
    let line = |(names, help): (String, &str)| format!("  {names:<16} {help}\n");
    let of_cluster = cluster::BINDINGS.iter().map(|row| line((key::names(row), row.help)));
    let of_cluster: String = of_cluster.collect();
    format!("Keys:\n{keys}\nKeys with --nodes:\n{of_cluster}\n{}", exit::HELP)
}
