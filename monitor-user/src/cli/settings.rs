//! The effective configuration: the file, overridden by arguments and environment.

use super::exit::{Exit, Failure};
use super::output;
use monitor_backends::select::BackendChoice;
use monitor_client::socket_path;
use monitor_server::daemon::config::{Config, ConfigError, LoadedConfig};
use std::path::{Path, PathBuf};

/// Settings from the command line and the environment.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--socket` or `MONITOR_SOCKET`.
    pub socket: Option<PathBuf>,
    /// `--backend` or `MONITOR_BACKEND`.
    pub backend: Option<BackendChoice>,
    /// `MONITOR_LOG`.
    pub log: Option<&'static str>,
}

/// Reads the file and applies the overrides.
pub fn read(file: Option<&Path>, overrides: &Overrides) -> Result<LoadedConfig, ConfigError> {
    let mut loaded = LoadedConfig::read(file)?;
    let config = &mut loaded.config;
    if overrides.socket.is_some() {
        config.socket.clone_from(&overrides.socket);
    }
    config.backend = overrides.backend.unwrap_or(config.backend);
    config.log = overrides.log.unwrap_or(config.log);
    Ok(loaded)
}

/// The path of the socket.
pub fn socket(config: &Config) -> Result<PathBuf, Failure> {
    config.socket.clone().map_or_else(socket_path::default_path, Ok).map_err(Failure::failed)
}

/// Prints all errors of a file, one per line; the last one is returned as the failure.
pub fn print_errors(wrong: ConfigError) -> Failure {
    let mut lines: Vec<String> = wrong.lines().collect();
    let last = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| output::notice(line));
    Failure { message: last, exit: Exit::Usage }
}
