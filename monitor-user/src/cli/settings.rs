//! The configuration as it comes to hold: the file, and over it what was said at the start.

use super::exit::{Exit, Failure};
use super::output;
use monitor_backends::select::Choice;
use monitor_server::daemon::config::{Config, Loaded, Wrong};
use monitor_sys::place;
use std::path::{Path, PathBuf};

/// What the command line and the environment say.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// `--socket` or `MONITOR_SOCKET`.
    pub socket: Option<PathBuf>,
    /// `--backend` or `MONITOR_BACKEND`.
    pub backend: Option<Choice>,
    /// `MONITOR_LOG`.
    pub log: Option<&'static str>,
}

/// Reads the file, and lays over it what was said.
pub fn read(file: Option<&Path>, said: &Said) -> Result<Loaded, Wrong> {
    let mut loaded = Loaded::read(file)?;
    let config = &mut loaded.config;
    if said.socket.is_some() {
        config.socket.clone_from(&said.socket);
    }
    config.backend = said.backend.unwrap_or(config.backend);
    config.log = said.log.unwrap_or(config.log);
    Ok(loaded)
}

/// Where it listens.
pub fn socket(config: &Config) -> Result<PathBuf, Failure> {
    config.socket.clone().map_or_else(place::default_path, Ok).map_err(Failure::failed)
}

/// Says all that is wrong with a file, a line each; the last of them is the failure.
pub fn told(wrong: Wrong) -> Failure {
    let mut lines: Vec<String> = wrong.lines().collect();
    let last = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| output::say(line));
    Failure { message: last, exit: Exit::Usage }
}
