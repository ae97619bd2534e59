//! `monitor replay FILE --page`: the page of the service, over a recording.
//!
//! In: a recording, and where to listen. Out: a page with a bar to go to and fro; its address is
//! said. The service that shows it is this program, in a folder of its own, until it is ended.

use super::stage::Stage;
use super::when::Between;
use super::words::Speed;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::say;
use crate::cli::status::page;
use crate::client::Client;
use crate::cluster::scope::Node;
use crate::daemon::{self, Settings};
use crate::record::{Recording, Span};
use crate::serve::http::Dial;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// From one attempt to reach our own service to the next.
const AGAIN: Duration = Duration::from_millis(20);

/// A folder that nobody else can read; taken away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let beside = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let beside = beside.filter(|it| it.is_dir()).unwrap_or_else(std::env::temp_dir);
        let path = beside.join(format!("monitor-replay-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody else knows of it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

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
    let folder = Folder::new().map_err(failed)?;
    let socket = folder.0.join("socket");
    let shown = Span {
        first: crate::model::sample::Instant {
            unix: between.from.max(span.first.unix),
            ..span.first
        },
        last: crate::model::sample::Instant { unix: between.to.min(span.last.unix), ..span.last },
        ..span
    };
    let dial = Dial::new(recording.path(), &shown, (shown.first.unix, times));
    let dial = Arc::new(dial);
    let name = recording.header().node.clone();
    let node = Node { name, number: 0, aliases: Vec::new(), ranks: Vec::new() };
    let mut settings = Settings::new(socket.clone(), node);
    settings.loaded.config.http.address = Some(address);
    settings.dial = Some(Arc::clone(&dial));
    let stage = Box::new(Stage::new(recording, dial));
    runtime()?.block_on(async {
        tokio::select! {
            served = daemon::serve(settings, stage, Vec::new()) => served.map_err(failed),
            () = announced(&socket) => Ok(()),
        }
    })?;
    Ok(Exit::Ok)
}

/// Says where the page is, and then nothing.
async fn announced(socket: &Path) {
    loop {
        if let Ok(client) = Client::connect_to(socket).await
            && let Ok(own) = client.status().await
            && let Some(http) = own.http
        {
            say(&format!("{}  (Ctrl-C ends it)", page(&http)));
            return std::future::pending().await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
