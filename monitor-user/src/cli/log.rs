//! Where the log goes: standard error, and only if somebody asked for it.
//!
//! `MONITOR_LOG=LEVEL` lets the monitor itself speak, the verifier's reasons among it;
//! `--probe-log LEVEL` lets the programs in the kernel speak, through aya-log. A service speaks
//! as its configuration says, and can be told to speak otherwise while it runs.

use monitor_server::daemon::config::LEVELS;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable that names a level.
const VARIABLE: &str = "MONITOR_LOG";

/// Crates that load the programs, and how much they may say.
const LOADER: [(&str, LevelFilter); 2] =
    [("aya", LevelFilter::WARN), ("aya_obj", LevelFilter::WARN)];

/// The level that the environment wants; an unknown one is no reason not to measure.
pub fn wanted() -> Option<&'static str> {
    let text = std::env::var(VARIABLE).ok()?;
    LEVELS.into_iter().find(|it| it.eq_ignore_ascii_case(&text))
}

/// Starts the log of a service; what it returns sets another level.
pub fn service(level: &str) -> Box<dyn Fn(&str)> {
    let (filter, handle) = reload::Layer::new(targets(parsed(level)));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // It has been started, if this fails.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    Box::new(move |level| {
        // The log goes with the program, so it is there.
        let _ = handle.reload(targets(parsed(level)));
    })
}

fn parsed(level: &str) -> LevelFilter {
    level.parse().unwrap_or(LevelFilter::INFO)
}

/// The loader tells every relocation at these levels; that is of no use here.
fn targets(level: LevelFilter) -> Targets {
    let loader = LOADER.map(|(name, most)| (name, most.min(level)));
    Targets::new().with_default(level).with_targets(loader)
}

/// Starts the log, if it is wanted. The programs' level is that of `--probe-log`.
pub fn start(probe_log: u8) {
    let probes = match probe_log {
        0 => LevelFilter::OFF,
        1 => LevelFilter::ERROR,
        2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // An unknown level is no reason not to measure.
    let own = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let level = own.unwrap_or(LevelFilter::OFF).max(probes);
    if level != LevelFilter::OFF {
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        // It has been started, if this fails.
        let lines = lines.with_filter(targets(level));
        let _ = tracing_subscriber::registry().with(lines).try_init();
    }
}
