//! The configuration of the daemon: one TOML file, in which every value is checked.
//!
//! In: the text of the file. Out: a configuration and the line of each value, or all faults with
//! line and key. A file with a fault changes nothing.

pub mod cluster;
mod diag;
mod key;
mod rule;
mod value;

pub use cluster::ClusterConfig;
pub use key::{ConfigKey, KEYS};

use crate::files::{AggregatorConfig, FilesListen, FilesSocket, NodeAddress};
use crate::policy::{Grantee, Grants, default_grants};
use crate::{http::Listen, http::push::PushConfig, limits};
use monitor_backend::BackendChoice;
use monitor_model::{Ns, name};
use monitor_monitors::UserLimits;
use monitor_platform::linux::recorder::DEFAULT_DUMP_FOLDER;
use monitor_sampling::{budget, scrape::ScrapeConfig};
use monitor_services::diag::DiagSettings;
use monitor_services::requests::FollowSettings;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The administrator's file.
const SYSTEM: &str = "/etc/monitor/monitor.toml";
/// Longest file that is read.
const FILE_BYTES: u64 = 1 << 20;
/// The log levels.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The path of the socket; the user's default path, if absent.
    pub socket: Option<PathBuf>,
    /// The backend.
    pub backend: BackendChoice,
    /// The log level.
    pub log: &'static str,
    /// Limits of the monitors of one user.
    pub limits: UserLimits,
    /// Limits of connections.
    pub connections: limits::ConnectionLimits,
    /// Which users have which rights.
    pub grants: Grants,
    /// What the daemon may use itself.
    pub budget: budget::BudgetLimits,
    /// Where the files are served.
    pub files: FilesSocket,
    /// Where else they are served, and the certificate of this node.
    pub files_listen: FilesListen,
    /// Which users may execute programs through the files.
    pub execute: Vec<Grantee>,
    /// Other nodes whose state is followed.
    pub nodes: Vec<NodeAddress>,
    /// The aggregator of samples and events of other services.
    pub aggregator: AggregatorConfig,
    /// The HTTP listener.
    pub http: Listen,
    /// Which metrics are exposed.
    pub exposed: ScrapeConfig,
    /// Where and how often metrics are pushed.
    pub push: PushConfig,
    /// The flight recorder.
    pub flight: FlightConfig,
    /// What is followed also while no tool waits for its changes.
    pub followed: FollowSettings,
    /// Thresholds of diagnostic events.
    pub diag: DiagSettings,
    /// The folder of checkpoint images of migrating processes.
    pub images: PathBuf,
    /// The cluster of this node.
    pub cluster: ClusterConfig,
}

/// The configuration of the flight recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightConfig {
    /// How much time is kept; 0 turns it off.
    pub keep: Ns,
    /// The period of its samples.
    pub every: Ns,
}

impl Default for FlightConfig {
    fn default() -> Self {
        Self { keep: Ns(0), every: Ns(1_000_000_000) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: None,
            backend: BackendChoice::Auto,
            log: "info",
            limits: UserLimits::default(),
            connections: limits::ConnectionLimits::default(),
            grants: default_grants(),
            budget: budget::BudgetLimits::default(),
            files: FilesSocket::default(),
            files_listen: FilesListen::default(),
            execute: Vec::new(),
            nodes: Vec::new(),
            aggregator: AggregatorConfig::default(),
            http: Listen::default(),
            exposed: ScrapeConfig::default(),
            flight: FlightConfig::default(),
            followed: FollowSettings::default(),
            diag: DiagSettings::default(),
            images: DEFAULT_DUMP_FOLDER.into(),
            push: PushConfig::default(),
            cluster: ClusterConfig::default(),
        }
    }
}

/// A fault in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigFault {
    /// The line; 0 for the file as a whole.
    pub line: usize,
    /// The key; empty if it concerns none.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// A configuration file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// Its faults.
    pub faults: Vec<ConfigFault>,
}

impl ConfigError {
    /// A line of text for each fault.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(|fault| {
            let ConfigFault { line, key, message } = fault;
            let path = self.path.display();
            match (line, key.is_empty()) {
                (0, _) => format!("{path}: {message}"),
                (line, true) => format!("{path}:{line}: {message}"),
                (line, false) => format!("{path}:{line}: {key}: {message}"),
            }
        })
    }
}

/// A configuration and its source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedConfig {
    /// The values.
    pub config: Config,
    /// The file; absent if there is none, and all values are defaults.
    pub path: Option<PathBuf>,
    /// For each of [`KEYS`], the line that sets it; `None` for a default.
    pub lines: Vec<Option<usize>>,
}

impl LoadedConfig {
    /// Reads the named file, or the default one, which may be absent.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has a fault.
    pub fn read(named: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = named.map(Path::to_owned).or_else(default_path) else {
            return Ok(Self { lines: vec![None; KEYS.len()], ..Self::default() });
        };
        let error = |faults| ConfigError { path: path.clone(), faults };
        let unreadable =
            |message| error(vec![ConfigFault { line: 0, key: String::new(), message }]);
        let text = read_own(&path).map_err(|why| unreadable(why.to_string()))?;
        let (config, lines) = from_text(&text).map_err(error)?;
        Ok(Self { config, path: Some(path), lines })
    }
}

/// The text of a file that root and this user alone may change: it says what users may do.
fn read_own(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_owner(&metadata, "the file")?;
    check_owner(&std::fs::metadata(folder)?, "its folder")?;
    if metadata.len() > FILE_BYTES {
        let bytes = metadata.len();
        return Err(invalid(format!("the file has {bytes} bytes; the limit is {FILE_BYTES}")));
    }
    let mut text = String::new();
    let _bytes = file.read_to_string(&mut text)?;
    Ok(text)
}

/// Refuses what another user may change. In a folder with the sticky bit, others cannot replace the
/// file.
fn check_owner(it: &Metadata, what: &str) -> io::Result<()> {
    let is_sticky = it.is_dir() && it.mode() & 0o1000 != 0;
    let (owner, own) = (it.uid(), rustix::process::geteuid().as_raw());
    if !is_sticky && owner != 0 && owner != own {
        return Err(invalid(format!("{what} belongs to user {owner}: chown it to root")));
    }
    if !is_sticky && it.mode() & 0o022 != 0 {
        return Err(invalid(format!("other users may write to {what}: chmod go-w it")));
    }
    Ok(())
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The user's file or the administrator's, if one exists. Root uses only the administrator's.
fn default_path() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).filter(|it| !it.is_empty());
    let config = named("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(named("HOME")?).join(".config")));
    let own = config.map(|it| it.join("monitor/monitor.toml"));
    let own = own.filter(|_| !rustix::process::geteuid().is_root());
    own.into_iter().chain([PathBuf::from(SYSTEM)]).find(|it| it.exists())
}

/// Parses the text of a file, and returns the configuration and the line of each key.
pub fn from_text(text: &str) -> Result<(Config, Vec<Option<usize>>), Vec<ConfigFault>> {
    let mut reading = ConfigReader {
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
    let ConfigReader { config, lines, mut faults, .. } = reading;
    faults.sort();
    // After a syntax error, further faults of the same line are consequences.
    faults.dedup_by(|next, first| first.key.is_empty() && first.line == next.line);
    if faults.is_empty() { Ok((config, lines)) } else { Err(faults) }
}

/// The log level of this name.
pub fn level(written: &str) -> Result<&'static str, String> {
    let place = name::position("level", LEVELS.into_iter(), written);
    place.map(|place| LEVELS[place]).map_err(|why| why.to_string())
}

struct ConfigReader<'a> {
    text: &'a str,
    config: Config,
    lines: Vec<Option<usize>>,
    faults: Vec<ConfigFault>,
}

impl ConfigReader<'_> {
    fn section(&mut self, at: Range<usize>, name: &str, value: &DeValue<'_>) {
        let sections = KEYS.iter().map(|key| key.section);
        if let Err(unknown) = name::position("section", sections, name) {
            return self.fault(at, name, unknown.to_string());
        }
        let Some(table) = value.as_table() else {
            let message = format!("expected a section: write [{name}] and its keys below it");
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
        if let Err(message) = key.set(&mut self.config, value) {
            self.fault(at, &whole, message);
        }
    }

    fn fault(&mut self, at: Range<usize>, key: &str, message: String) {
        self.faults.push(ConfigFault { line: self.line(&at), key: key.to_owned(), message });
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(at.start);
        1 + before.filter(|&&byte| byte == b'\n').count()
    }
}

#[cfg(test)]
mod tests;
