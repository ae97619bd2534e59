//! The arguments of `monitor cluster`.

use crate::cli::args::daemon::{ConfigFileArgs, DaemonArgs};
use crate::cli::args::{PrintArgs, interval};
use crate::cli::exit;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands below `cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Write configurations, certificates and keys for the servers and nodes of a cluster
    Init(ClusterInitArgs),
    /// Check each link of this node to the servers, and say how to fix what is wrong
    Doctor(ClusterDoctorArgs),
}

/// Arguments of `cluster init`.
#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub struct ClusterInitArgs {
    /// Nodes, such as 'n[001-128]'; in a folder with a cluster, they are added to it
    #[arg(long, value_name = "SET", required_unless_present = "racks")]
    pub nodes: Option<String>,
    /// Hosts of servers, such as a,b:4222,c: one or three; required for a new cluster
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Folder to write to; what exists there is kept
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Hosts of servers in front of racks, and nodes that are divided among them, such as
    /// 'r[1-8]=m[001-512]'; repeatable
    #[arg(long = "rack", value_name = "SET=SET")]
    pub racks: Vec<String>,
    /// Nodes that make the streams and remove dead members; default: the first three
    #[arg(long, value_name = "SET")]
    pub service: Option<String>,
    /// Nodes that read what all nodes publish, for pages and metrics of the cluster
    #[arg(long, value_name = "SET")]
    pub gateways: Option<String>,
    /// Nodes whose users may control processes on all nodes; default: none
    #[arg(long, value_name = "SET")]
    pub control_from: Option<String>,
    /// Name of the cluster; default: monitor
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Certificate of an authority that will sign those of the servers; default: a new one
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Address at which nodes take files and processes of other nodes, with TLS, such as
    /// 0.0.0.0:5641; default: none
    #[arg(long, value_name = "ADDRESS")]
    pub files: Option<SocketAddr>,
    /// Let configurations name the files in the folder, for a cluster on this host
    #[arg(long)]
    pub in_place: bool,
}

const INIT_HELP: &str = "\
Example:
  monitor cluster init --nodes 'n[001-128]' --servers a,b,c --out site
  monitor cluster init --nodes n1 --servers a --rack 'r1=m[1-64]' --out site

servers/HOST is copied to /etc/nats of each server, nodes/NAME to /etc/monitor
of each node. See docs/CLUSTER.md.";

/// Arguments of `cluster doctor`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ClusterDoctorArgs {
    /// The configuration of the node.
    #[command(flatten)]
    pub file: ConfigFileArgs,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
    /// How long all checks may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub within: Duration,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
