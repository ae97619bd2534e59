//! `monitor config`: checks the configuration of the daemon, or prints the effective one.

use super::args::{ConfigArgs, ConfigCommand};
use super::exit::{Exit, Failure};
use super::log;
use super::output;
use super::settings::{self, Overrides};
use monitor_server::daemon::config::{ConfigKey, KEYS, LoadedConfig};
use std::fmt::Write;

/// Checks or prints the configuration.
pub fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Check { file } => {
            let loaded = LoadedConfig::read(file.path()).map_err(settings::print_errors)?;
            let text = match &loaded.path {
                Some(path) => format!("{}: ok\n", path.display()),
                None => "no configuration file: using the defaults\n".into(),
            };
            output::print(text.as_bytes())
        }
        ConfigCommand::Show { file, socket, backend } => {
            let overrides =
                Overrides { socket: socket.clone(), backend: *backend, log: log::env_level() };
            let loaded = settings::read(file.path(), &overrides).map_err(settings::print_errors)?;
            output::print(effective_config(&loaded, &overrides)?.as_bytes())
        }
    }
}

/// The effective configuration in the format of the file, with the origin of each value.
fn effective_config(loaded: &LoadedConfig, overrides: &Overrides) -> Result<String, Failure> {
    let mut config = loaded.config.clone();
    config.socket = Some(settings::socket(&config)?);
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
