//! Arguments of `files`.

use super::daemon::DaemonArgs;
use crate::cli::exit;
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
    /// 9P socket, tcp!HOST!PORT, or tls!HOST!PORT; default: the daemon's socket with .9p after its
    /// name
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket")]
    pub at: Option<String>,
    /// Attach as this user: only root may name another; none observes what any user may, and is
    /// the only one over TCP and TLS
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// The certificate for TLS.
    #[command(flatten)]
    pub certificate: CertificateArgs,
}

/// The certificate of a node, for an address with TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "With TLS")]
pub struct CertificateArgs {
    /// Certificate of this node, PEM; default: that of the configuration, `files.certificate`
    #[arg(long, value_name = "FILE", requires_all = ["key", "authority"])]
    pub certificate: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "authority"])]
    pub key: Option<PathBuf>,
    /// Authority that signs the certificates of nodes, PEM
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "key"])]
    pub authority: Option<PathBuf>,
    /// Configuration file of the daemon, which names the certificate; default: as that of `serve`
    #[arg(long, value_name = "FILE", conflicts_with = "certificate")]
    pub config: Option<PathBuf>,
}
