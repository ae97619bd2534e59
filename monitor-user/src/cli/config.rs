//! `monitor config`: checks the configuration of the daemon, or prints the effective one: the file,
//! overridden by arguments and environment.

use super::args::daemon::{ConfigArgs, ConfigCommand, OverrideArgs};
use super::exit::{Exit, Failure};
use super::{log, output};
use monitor_backend::BackendChoice;
use monitor_client::socket_path;
use monitor_server::daemon::config::{Config, ConfigError, ConfigKey, KEYS, LoadedConfig};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Checks or prints the configuration.
pub fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Check { file } => {
            let loaded = LoadedConfig::read(file.path()).map_err(print_errors)?;
            let text = match &loaded.path {
                Some(path) => format!("{}: ok\n", path.display()),
                None => "no configuration file: using the defaults\n".into(),
            };
            output::print(text.as_bytes())
        }
        ConfigCommand::Show { file, overrides } => {
            let overrides = Overrides::from_args(overrides);
            let loaded = read(file.path(), &overrides).map_err(print_errors)?;
            output::print(effective_config(&loaded, &overrides)?.as_bytes())
        }
    }
}

/// The effective configuration in the format of the file, with the origin of each value.
fn effective_config(loaded: &LoadedConfig, overrides: &Overrides) -> Result<String, Failure> {
    let mut config = loaded.config.clone();
    config.socket = Some(socket(&config)?);
    let mut out = String::new();
    let mut section = "";
    for (key, line) in KEYS.iter().zip(&loaded.lines) {
        if key.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}[{}]", key.section);
            section = key.section;
        }
        let value = key.show(&config);
        let origin = origin(key, *line, loaded, overrides);
        let _ = writeln!(out, "# {}\n{} = {value}  # {origin}", key.meaning, key.name);
    }
    Ok(out)
}

fn origin(
    key: &ConfigKey,
    line: Option<usize>,
    loaded: &LoadedConfig,
    overrides: &Overrides,
) -> String {
    let origin_option = match key.section {
        "socket" if overrides.socket.is_some() => Some("--socket or MONITOR_SOCKET"),
        "backend" if overrides.backend.is_some() => Some("--backend or MONITOR_BACKEND"),
        "log" if overrides.log.is_some() => Some("MONITOR_LOG"),
        _ => None,
    };
    match (origin_option, line, &loaded.path) {
        (Some(origin_option), ..) => origin_option.into(),
        (None, Some(line), Some(path)) => format!("{}:{line}", path.display()),
        _ => "default".into(),
    }
}

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

impl Overrides {
    /// Those of the arguments and of the environment.
    pub fn from_args(args: &OverrideArgs) -> Self {
        Self { socket: args.socket.clone(), backend: args.backend, log: log::env_level() }
    }
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
