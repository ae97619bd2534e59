//! `monitor replay FILE --page`: the daemon's web page, over a recording.
//!
//! In: a recording, and an address to listen on. Out: a page with a seek bar; its address is
//! printed. This process serves the page until it is interrupted, and creates no file.

use super::args::Speed;
use super::playback_backend::PlaybackBackend;
use super::time_range::TimeRange;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_cluster::scope::Node;
use monitor_recording::{Recording, Span};
use monitor_server::daemon;
use monitor_server::daemon::{Endpoint, Settings};
use monitor_server::http::PlaybackClock;
use std::net::SocketAddr;
use std::sync::Arc;

/// Serves the page until interrupted.
pub fn show(
    recording: Recording,
    address: SocketAddr,
    (span, range, speed): (Span, TimeRange, Speed),
) -> Result<Exit, Failure> {
    let Speed::Times(times) = speed else {
        return Err(Failure::usage("--page needs a number for --speed: max does not apply"));
    };
    let failed = |why: std::io::Error| Failure::failed(format!("cannot serve the page: {why}"));
    let shown = Span {
        first: monitor_model::sample::Instant {
            unix: range.from.max(span.first.unix),
            ..span.first
        },
        last: monitor_model::sample::Instant { unix: range.to.min(span.last.unix), ..span.last },
        ..span
    };
    let clock = PlaybackClock::new(recording.path(), &shown, (shown.first.unix, times));
    let clock = Arc::new(clock);
    let name = recording.header().node.clone();
    let node = Node { name, number: 0, aliases: Vec::new(), ranks: Vec::new() };
    let mut settings = Settings::new(Endpoint::Page(announce), node);
    settings.loaded.config.http.address = Some(address);
    settings.playback = Some(Arc::clone(&clock));
    let backend = Box::new(PlaybackBackend::new(recording, clock));
    runtime()?.block_on(daemon::serve(settings, backend, Vec::new())).map_err(failed)?;
    Ok(Exit::Ok)
}

/// Prints the address of the page.
fn announce(address: &str) {
    notice(&format!("{address}  (Ctrl-C to stop)"));
}
