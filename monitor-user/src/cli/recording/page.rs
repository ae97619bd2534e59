//! `monitor replay FILE --page`: the page of the service, over a recording.
//!
//! In: a recording, and where to listen. Out: a page with a bar to go to and fro; its address is
//! said. The service that shows it is this program, until it is ended; no file of it is anywhere,
//! so there is nothing that could be left behind.

use super::stage::Stage;
use super::when::Between;
use super::words::Speed;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::say;
use monitor_cluster::scope::Node;
use monitor_recording::{Recording, Span};
use monitor_server::daemon;
use monitor_server::daemon::{Place, Settings};
use monitor_server::http::Dial;
use std::net::SocketAddr;
use std::sync::Arc;

/// Shows it until it is ended.
pub fn show(
    recording: Recording,
    address: SocketAddr,
    (span, between, speed): (Span, Between, Speed),
) -> Result<Exit, Failure> {
    let Speed::Times(times) = speed else {
        return Err(Failure::usage("a page shows time as it goes: --speed is a number"));
    };
    let failed = |why: std::io::Error| Failure::failed(format!("cannot show a page: {why}"));
    let shown = Span {
        first: monitor_model::sample::Instant {
            unix: between.from.max(span.first.unix),
            ..span.first
        },
        last: monitor_model::sample::Instant { unix: between.to.min(span.last.unix), ..span.last },
        ..span
    };
    let dial = Dial::new(recording.path(), &shown, (shown.first.unix, times));
    let dial = Arc::new(dial);
    let name = recording.header().node.clone();
    let node = Node { name, number: 0, aliases: Vec::new(), ranks: Vec::new() };
    let mut settings = Settings::new(Place::Page(announce), node);
    settings.loaded.config.http.address = Some(address);
    settings.dial = Some(Arc::clone(&dial));
    let stage = Box::new(Stage::new(recording, dial));
    runtime()?.block_on(daemon::serve(settings, stage, Vec::new())).map_err(failed)?;
    Ok(Exit::Ok)
}

/// Says where the page is.
fn announce(address: &str) {
    say(&format!("{address}  (Ctrl-C ends it)"));
}
