//! The log: to standard error, off by default.
//!
//! `MONITOR_LOG=LEVEL` enables the log of this program, including verifier messages;
//! `--probe-log LEVEL` enables that of the BPF programs, through aya-log. The level of the daemon
//! comes from its configuration and can change while it runs.

use monitor_server::daemon::config::LEVELS;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

/// The environment variable that sets the level.
const VARIABLE: &str = "MONITOR_LOG";

/// Crates that load the BPF programs, and their maximum level.
const LOADER: [(&str, LevelFilter); 2] =
    [("aya", LevelFilter::WARN), ("aya_obj", LevelFilter::WARN)];

/// The level set by the environment. An unknown one is ignored, not an error.
pub fn env_level() -> Option<&'static str> {
    let text = std::env::var(VARIABLE).ok()?;
    LEVELS.into_iter().find(|it| it.eq_ignore_ascii_case(&text))
}

/// Starts the log of the daemon. Returns a function that sets another level.
pub fn service(level: &str) -> Box<dyn Fn(&str)> {
    let (filter, handle) = reload::Layer::new(targets(parsed(level)));
    print_through(filter);
    Box::new(move |level| {
        // The log lives as long as the program, so this cannot fail.
        let _ = handle.reload(targets(parsed(level)));
    })
}

/// Prints what passes the filter to standard error.
fn print_through(filter: impl Filter<Registry> + Send + Sync + 'static) {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Fails only if a log was started already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

fn parsed(level: &str) -> LevelFilter {
    level.parse().unwrap_or(LevelFilter::INFO)
}

/// The filter for a level. The loader crates are capped: they log every relocation.
fn targets(level: LevelFilter) -> Targets {
    let loader = LOADER.map(|(name, most)| (name, most.min(level)));
    Targets::new().with_default(level).with_targets(loader)
}

/// Starts the log if it is enabled. `probe_log` is the level of `--probe-log`.
pub fn start(probe_log: u8) {
    let probes = match probe_log {
        0 => LevelFilter::OFF,
        1 => LevelFilter::ERROR,
        2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // An unknown level is ignored, not an error.
    let own = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let level = own.unwrap_or(LevelFilter::OFF).max(probes);
    if level != LevelFilter::OFF {
        print_through(targets(level));
    }
}
