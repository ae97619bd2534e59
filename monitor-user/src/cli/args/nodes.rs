//! Options of commands for other nodes.

use super::reading::interval;
use crate::cli::node_groups::node_set;
use clap::Args;
use monitor_control::session::copy_target::MAX_WIDTH;
use std::ffi::OsString;
use std::time::Duration;

/// Which nodes, and how the command runs there.
#[derive(Debug, Args)]
#[command(next_help_heading = "On other nodes")]
pub struct NodesArgs {
    /// Copy the command with its libraries to these nodes, such as n[1-3],m, and run it there
    #[arg(long, value_name = "SET", value_parser = node_set,
        conflicts_with_all = ["format", "output", "record", "local"])]
    pub nodes: Option<String>,
    /// Address of a node: the path of its 9P socket; both may be sets of the same size
    #[arg(
        long,
        value_name = "NAME=PATH",
        env = "MONITOR_NODES",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    pub at: Vec<String>,
    /// Print equal output once, under the names of its nodes, when all have ended
    #[arg(long, requires = "nodes")]
    pub fold: bool,
    /// Execute the command, an absolute path, as the nodes have it; copy nothing
    #[arg(long, requires = "nodes")]
    pub in_place: bool,
    /// Let each node copy the command to N others at a time, also over sockets of this machine; 0:
    /// copy all from here. Default: 4 for more than 8 nodes, among those with TLS
    #[arg(long, value_name = "N", requires = "nodes", value_parser = tree_width)]
    pub tree: Option<usize>,
    /// Give the command an empty standard input
    #[arg(long, requires = "nodes")]
    pub no_input: bool,
    /// Set a variable beside those that sessions of the node begin with
    #[arg(long, value_name = "NAME=VALUE", requires = "nodes")]
    pub env: Vec<OsString>,
    /// Attach as this user: only root may name another
    #[arg(long, value_name = "NAME", requires = "nodes")]
    pub user: Option<String>,
    /// How long a node may take for a step before the run, such as connecting
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub timeout: Duration,
}

/// Which nodes of the cluster a command reads, and how long they may take.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many nodes")]
pub struct NodeSetArgs {
    /// Read these nodes of the cluster, such as n[1-3],m7 or @*
    #[arg(long, value_name = "SET", value_parser = node_set, conflicts_with = "backend")]
    pub nodes: Option<String>,
    /// With --nodes: wait this long for replies
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes")]
    pub within: Duration,
}

/// The nodes of the cluster that have the monitors of a command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many nodes")]
pub struct MonitorNodesArgs {
    /// At these nodes of the cluster, such as n[1-3],m7 or @*
    #[arg(long, value_name = "SET", value_parser = node_set)]
    pub nodes: Option<String>,
    /// With --nodes: wait this long for replies
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval,
        requires = "nodes")]
    pub within: Duration,
}

/// Nodes that one copies to at a time.
fn tree_width(text: &str) -> Result<usize, String> {
    let width = text.parse().ok().filter(|it| *it <= MAX_WIDTH);
    width.ok_or_else(|| format!("expected a number of 0 to {MAX_WIDTH}"))
}
