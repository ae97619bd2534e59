//! Arguments of `files`.

use super::daemon::DaemonArgs;
use crate::cli::exit;
use clap::{Args, Subcommand};

/// Arguments of `files`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct FilesArgs {
    /// List, read or write.
    #[command(subcommand)]
    pub command: FilesCommand,
}

/// The commands below `files`.
#[derive(Debug, Subcommand)]
pub enum FilesCommand {
    /// List a directory, or name a file
    Ls {
        /// Path from the root of the tree
        #[arg(default_value = "/")]
        path: String,
        /// Print mode, owner, group and length too
        #[arg(short, long)]
        long: bool,
        /// The tree.
        #[command(flatten)]
        source: FilesSourceArgs,
    },
    /// Write standard input to a file, to its end
    Write {
        /// Path from the root of the tree; below fs/ of a session it is created
        path: String,
        /// The tree.
        #[command(flatten)]
        source: FilesSourceArgs,
    },
    /// Print files to their end, as their content arrives
    Cat {
        /// Paths from the root of the tree
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// The tree.
        #[command(flatten)]
        source: FilesSourceArgs,
    },
}

/// Which tree, as which user.
#[derive(Debug, Args)]
pub struct FilesSourceArgs {
    /// 9P socket, or tcp!HOST!PORT; default: the daemon's socket with .9p after its name
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket")]
    pub at: Option<String>,
    /// Attach as this user: only root may name another; none observes what any user may, and is
    /// the only one over TCP
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
