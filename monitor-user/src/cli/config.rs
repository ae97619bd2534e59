//! `monitor config`: whether a file makes sense, and what holds.

use super::args::{Config as Words, ConfigCommand};
use super::exit::{Exit, Failure};
use super::log;
use super::output;
use super::settings::{self, Said};
use monitor_server::daemon::config::{KEYS, Key, Loaded};
use std::fmt::Write;

/// Checks or shows.
pub fn config(words: &Words) -> Result<Exit, Failure> {
    match &words.command {
        ConfigCommand::Check { file } => {
            let loaded = Loaded::read(file.path()).map_err(settings::told)?;
            let text = match &loaded.path {
                Some(path) => format!("{}: nothing is wrong\n", path.display()),
                None => "there is no configuration: the defaults hold\n".into(),
            };
            output::print(text.as_bytes())
        }
        ConfigCommand::Show { file, socket, backend } => {
            let said = Said { socket: socket.clone(), backend: *backend, log: log::wanted() };
            let loaded = settings::read(file.path(), &said).map_err(settings::told)?;
            output::print(shown(&loaded, &said)?.as_bytes())
        }
    }
}

/// As a file that would say the same, with where each value came from.
fn shown(loaded: &Loaded, said: &Said) -> Result<String, Failure> {
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
        let value = (key.show)(&config);
        let origin = origin(key, *line, loaded, said);
        let _ = writeln!(out, "# {}\n{} = {value}  # {origin}", key.meaning, key.name);
    }
    Ok(out)
}

fn origin(key: &Key, line: Option<usize>, loaded: &Loaded, said: &Said) -> String {
    let over = match key.section {
        "socket" if said.socket.is_some() => Some("--socket or MONITOR_SOCKET"),
        "backend" if said.backend.is_some() => Some("--backend or MONITOR_BACKEND"),
        "log" if said.log.is_some() => Some("MONITOR_LOG"),
        _ => None,
    };
    match (over, line, &loaded.path) {
        (Some(over), ..) => over.into(),
        (None, Some(line), Some(path)) => format!("{}:{line}", path.display()),
        _ => "default".into(),
    }
}
