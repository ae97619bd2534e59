//! Arguments of the commands around the daemon: `serve`, `status` and `config`.
//!
//! In: the command line. Out: the same, typed.

use super::parse::names;
use super::reading::PrintArgs;
use crate::cli::exit;
use clap::{Args, Subcommand};
use monitor_backends::select::BackendChoice;
use std::path::{Path, PathBuf};

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct ServeArgs {
    /// Configuration file; default: $XDG_CONFIG_HOME/monitor/monitor.toml, then
    /// /etc/monitor/monitor.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Socket to listen on
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Backend to read with; auto: the best that works
    #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<BackendChoice>(&BackendChoice::NAMES))]
    pub backend: Option<BackendChoice>,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct StatusArgs {
    /// Socket of the daemon
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Output format.
    #[command(flatten)]
    pub printed: PrintArgs,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Check or show.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands below `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every error with its line and key; exit code 2 if there is one
    Check {
        /// The file.
        #[command(flatten)]
        file: ConfigFileArgs,
    },
    /// Print the effective configuration and where each value comes from
    Show {
        /// The file.
        #[command(flatten)]
        file: ConfigFileArgs,
        /// Socket that serve would listen on
        #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
        socket: Option<PathBuf>,
        /// Backend that serve would read with
        #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
            value_parser = names::<BackendChoice>(&BackendChoice::NAMES))]
        backend: Option<BackendChoice>,
    },
}

/// A configuration file, as an argument or as an option.
#[derive(Debug, Args)]
pub struct ConfigFileArgs {
    /// Configuration file; default: the one that serve would read
    pub file: Option<PathBuf>,
    /// Configuration file, spelled as for serve
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,
}

impl ConfigFileArgs {
    /// The named file, if any.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}
