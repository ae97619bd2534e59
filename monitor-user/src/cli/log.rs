//! Where the log goes: standard error, and only if somebody asked for it.
//!
//! `MONITOR_LOG=LEVEL` lets the monitor itself speak, the verifier's reasons among it;
//! `--probe-log LEVEL` lets the programs in the kernel speak, through aya-log.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable that names a level.
const VARIABLE: &str = "MONITOR_LOG";

/// Crates that load the programs, and how much they may say.
const LOADER: [(&str, LevelFilter); 2] =
    [("aya", LevelFilter::WARN), ("aya_obj", LevelFilter::WARN)];

/// Starts the log, if it is wanted. The programs' level is that of `args::LEVELS`.
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
        // The loader tells every relocation at these levels; that is of no use here.
        let targets = Targets::new().with_default(level).with_targets(LOADER);
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        // It has been started, if this fails.
        let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
    }
}
