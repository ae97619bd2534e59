//! The words of the service of this node: to run it, to ask how it is, to look at its settings.

use super::parse::names;
use super::reading::Printed;
use crate::cli::exit;
use clap::{Args, Subcommand};
use monitor_backends::select::Choice;
use std::path::{Path, PathBuf};

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Serve {
    /// Its configuration; else $XDG_CONFIG_HOME/monitor/monitor.toml or /etc/monitor/monitor.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where it listens
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Who reads: the best that works, or this one and no other
    #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<Choice>(&Choice::NAMES))]
    pub backend: Option<Choice>,
}

/// `status`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Status {
    /// Where it listens
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// How it is printed.
    #[command(flatten)]
    pub printed: Printed,
}

/// `config`.
#[derive(Debug, Args)]
pub struct Config {
    /// What to do with it.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Tell every error with its line and key; exit code 2 if there is one
    Check {
        /// Which.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Print what holds, and where each value comes from
    Show {
        /// Which.
        #[command(flatten)]
        file: ConfigFile,
        /// Where it would listen
        #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
        socket: Option<PathBuf>,
        /// Who would read
        #[arg(long, env = "MONITOR_BACKEND", hide_env_values = true,
            value_parser = names::<Choice>(&Choice::NAMES))]
        backend: Option<Choice>,
    },
}

/// A configuration, named in either way.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The file; the one that the service would read, if absent
    pub file: Option<PathBuf>,
    /// The same, as serve takes it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file, if one was named.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }
}
