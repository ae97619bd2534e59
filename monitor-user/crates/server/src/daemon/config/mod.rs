//! What the service is configured with: one TOML file, every value of it checked.
//!
//! In: the text of the file. Out: a configuration and where each value came from, or every fault
//! in it with its line and key. Nothing of a file with a fault is taken.

mod diag;
mod key;
mod rule;
mod value;

pub use key::{KEYS, Key};

use crate::door;
use crate::http::Listen;
use crate::http::push::Push;
use crate::policy::{Grants, everybody};
use monitor_backends::select::Choice;
use monitor_model::id::Ns;
use monitor_model::name;
use monitor_monitors::Limits;
use monitor_platform::live::recorder::DUMPS;
use monitor_sampling::budget;
use monitor_sampling::scrape::Exposed;
use monitor_services::diag::Settings;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Where the administrator's file lies.
const SYSTEM: &str = "/etc/monitor/monitor.toml";
/// Longest file that is read.
const FILE_BYTES: u64 = 1 << 20;
/// What the service may say.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where it listens; where this user's services do, if absent.
    pub socket: Option<PathBuf>,
    /// Who reads.
    pub backend: Choice,
    /// What is logged.
    pub log: &'static str,
    /// What one user may ask for.
    pub limits: Limits,
    /// What one user may hold open.
    pub door: door::Limits,
    /// Who may do what.
    pub grants: Grants,
    /// What the service may use itself.
    pub budget: budget::Limits,
    /// The HTTP listener.
    pub http: Listen,
    /// What is exposed as metrics.
    pub exposed: Exposed,
    /// Where metrics are pushed to.
    pub push: Push,
    /// What the flight recorder keeps.
    pub keeping: Keeping,
    /// When unusual events are told.
    pub diag: Settings,
    /// Where processes are dumped to that go to another node.
    pub dumps: PathBuf,
}

/// What the flight recorder keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// How much time; nothing, if it is off.
    pub keep: Ns,
    /// From one sample to the next.
    pub every: Ns,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { keep: Ns(0), every: Ns(1_000_000_000) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: None,
            backend: Choice::Auto,
            log: "info",
            limits: Limits::default(),
            door: door::Limits::default(),
            grants: everybody(),
            budget: budget::Limits::default(),
            http: Listen::default(),
            exposed: Exposed::default(),
            keeping: Keeping::default(),
            diag: Settings::default(),
            dumps: DUMPS.into(),
            push: Push::default(),
        }
    }
}

/// Something in the file that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Its line; 0 if it is about the file.
    pub line: usize,
    /// Its key, if it is about one.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The file.
    pub path: PathBuf,
    /// All that is wrong with it.
    pub faults: Vec<Fault>,
}

impl Wrong {
    /// A line for each fault.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(|fault| {
            let Fault { line, key, message } = fault;
            let path = self.path.display();
            match (line, key.is_empty()) {
                (0, _) => format!("{path}: {message}"),
                (line, true) => format!("{path}:{line}: {message}"),
                (line, false) => format!("{path}:{line}: {key}: {message}"),
            }
        })
    }
}

/// A configuration, and where it came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file; nothing but defaults, if there is none.
    pub path: Option<PathBuf>,
    /// For each of `KEYS`, the line that set it; absent for a default.
    pub lines: Vec<Option<usize>>,
}

impl Loaded {
    /// Reads the file that was named, or the one where it belongs; that one may be absent.
    pub fn read(named: Option<&Path>) -> Result<Self, Wrong> {
        let Some(path) = named.map(Path::to_owned).or_else(default_path) else {
            return Ok(Self { lines: vec![None; KEYS.len()], ..Self::default() });
        };
        let wrong = |faults| Wrong { path: path.clone(), faults };
        let unreadable = |message| wrong(vec![Fault { line: 0, key: String::new(), message }]);
        let bytes = std::fs::metadata(&path).map_err(|why| unreadable(why.to_string()))?.len();
        if bytes > FILE_BYTES {
            return Err(unreadable(format!("{bytes} bytes; at most {FILE_BYTES} are read")));
        }
        let text = std::fs::read_to_string(&path).map_err(|why| unreadable(why.to_string()))?;
        let (config, lines) = from_text(&text).map_err(wrong)?;
        Ok(Self { config, path: Some(path), lines })
    }
}

/// The file of this user, or the administrator's; none, if neither is there.
fn default_path() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).filter(|it| !it.is_empty());
    let config = named("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(named("HOME")?).join(".config")));
    let own = config.map(|it| it.join("monitor/monitor.toml"));
    let own = own.filter(|_| !rustix::process::geteuid().is_root());
    own.into_iter().chain([PathBuf::from(SYSTEM)]).find(|it| it.exists())
}

/// Reads the text of a file.
pub fn from_text(text: &str) -> Result<(Config, Vec<Option<usize>>), Vec<Fault>> {
    let mut reading = Reading {
        text,
        config: Config::default(),
        lines: vec![None; KEYS.len()],
        faults: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        reading.fault(error.span().unwrap_or(0..0), "", error.message().to_owned());
    }
    for (name, value) in table.get_ref() {
        reading.section(name.span(), name.get_ref(), value.get_ref());
    }
    let Reading { config, lines, mut faults, .. } = reading;
    faults.sort();
    // What was made of a line that is no TOML says nothing more about it.
    faults.dedup_by(|next, first| first.key.is_empty() && first.line == next.line);
    if faults.is_empty() { Ok((config, lines)) } else { Err(faults) }
}

/// A level of the log by its name.
pub fn level(written: &str) -> Result<&'static str, String> {
    let place = name::position("level", LEVELS.into_iter(), written);
    place.map(|place| LEVELS[place]).map_err(|why| why.to_string())
}

struct Reading<'a> {
    text: &'a str,
    config: Config,
    lines: Vec<Option<usize>>,
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn section(&mut self, at: Range<usize>, name: &str, value: &DeValue<'_>) {
        let sections = KEYS.iter().map(|key| key.section);
        if let Err(unknown) = name::position("section", sections, name) {
            return self.fault(at, name, unknown.to_string());
        }
        let Some(table) = value.as_table() else {
            let message = format!("a section: write [{name}], and its keys below");
            return self.fault(at, name, message);
        };
        for (key, value) in table {
            self.key(key.span(), (name, key.get_ref()), value.get_ref());
        }
    }

    fn key(&mut self, at: Range<usize>, (section, name): (&str, &str), value: &DeValue<'_>) {
        let whole = format!("{section}.{name}");
        let of_section = || KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
        if let Err(unknown) = name::position("key", of_section(), name) {
            return self.fault(at, &whole, unknown.to_string());
        }
        let line = self.line(&at);
        let keys = KEYS.iter().zip(&mut self.lines);
        let mut found = keys.filter(|(key, _)| key.section == section && key.name == name);
        let Some((key, place)) = found.next() else { return };
        *place = Some(line);
        if let Err(message) = (key.set)(&mut self.config, value) {
            self.fault(at, &whole, message);
        }
    }

    fn fault(&mut self, at: Range<usize>, key: &str, message: String) {
        self.faults.push(Fault { line: self.line(&at), key: key.to_owned(), message });
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(at.start);
        1 + before.filter(|&&byte| byte == b'\n').count()
    }
}

#[cfg(test)]
mod tests;
