//! The loop's end of the HTTP listener and of pushing: their tasks, their status, and the scrapes
//! that wait for their metrics. Scrapes that arrive while the same metrics are made share them.

use super::{config::Config, settings::Endpoint};
use crate::http::push::{self, PushStatus};
use crate::http::{AccessLevel, DaemonRequest, HttpListener, ListenerState, PlaybackClock};
use monitor_format::exposition::Encoding;
use monitor_protocol::status::{HttpStatus, OtlpStatus};
use std::{path::Path, sync::Arc};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::{sync::oneshot, task::JoinHandle};

/// Requests that may wait for the loop.
const REQUESTS: usize = 64;

/// The loop's end of the HTTP listener.
pub struct HttpBridge {
    requests: Receiver<DaemonRequest>,
    /// Keeps the queue open if there is no listener.
    sender: Sender<DaemonRequest>,
    shared: Option<Arc<ListenerState>>,
    push_status: Option<PushStatus>,
    tasks: Vec<JoinHandle<()>>,
    /// Scrapes that wait for their metrics.
    pending_scrapes: Vec<(AccessLevel, Encoding, MetricsReply)>,
    /// Whether metrics have been scraped: then their capabilities stay attached.
    pub has_collector: bool,
}

/// Receives the metrics, or why there are none.
pub type MetricsReply = oneshot::Sender<Result<Vec<u8>, String>>;

impl HttpBridge {
    /// Without a listener.
    pub fn new() -> Self {
        let (sender, requests) = channel(REQUESTS);
        Self {
            requests,
            sender,
            shared: None,
            push_status: None,
            tasks: Vec::new(),
            pending_scrapes: Vec::new(),
            has_collector: false,
        }
    }

    /// Starts to listen and to push, if that is configured.
    pub async fn open(
        &mut self,
        config: &Config,
        (endpoint, playback): (&Endpoint, Option<Arc<PlaybackClock>>),
    ) -> std::io::Result<()> {
        let folder = endpoint.socket().map(|it| it.parent().unwrap_or(Path::new(".")));
        let sender = self.sender.clone();
        let listener = HttpListener::open(&config.http, (folder, playback), sender).await?;
        if let Some(listener) = listener {
            let shared = listener.shared();
            tracing::info!(address = shared.status().address, "listening for HTTP");
            if let Endpoint::Page(report_address) = endpoint {
                report_address(&shared.page());
            }
            self.shared = Some(shared);
            self.tasks.push(tokio::spawn(listener.run()));
        }
        if let Some((status, task)) = push::start(&config.push, self.sender.clone()) {
            self.push_status = Some(status);
            self.tasks.push(task);
        }
        Ok(())
    }

    /// Where other listeners inside the daemon send their requests.
    pub fn requests(&self) -> Sender<DaemonRequest> {
        self.sender.clone()
    }

    /// Makes few pushes, or all of them again.
    pub fn shed_pushes(&self, shed: bool) {
        if let Some(pushes) = &self.push_status {
            pushes.shed(shed);
        }
    }

    /// The next request of the listener.
    pub async fn next_request(&mut self) -> DaemonRequest {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// The status of the listener.
    pub fn status(&self) -> Option<HttpStatus> {
        self.shared.as_ref().map(|it| it.status())
    }

    /// The status of pushing.
    pub fn pushed(&self) -> Option<OtlpStatus> {
        self.push_status.as_ref().map(PushStatus::status)
    }

    /// Stops listening and pushing.
    pub async fn close(&mut self) {
        self.shared = None;
        for task in self.tasks.drain(..) {
            task.abort();
            let _ = task.await;
        }
    }

    /// Adds a scrape, and returns whether its metrics are not being made yet.
    pub fn add_scrape(
        &mut self,
        access: AccessLevel,
        encoding: Encoding,
        reply: MetricsReply,
    ) -> bool {
        let is_pending = self.pending_scrapes.iter().any(|it| (it.0, it.1) == (access, encoding));
        self.pending_scrapes.push((access, encoding, reply));
        self.has_collector = true;
        !is_pending
    }

    /// Answers the scrapes that wait for this result.
    pub fn finish_scrape(
        &mut self,
        access: AccessLevel,
        encoding: Encoding,
        result: &Result<Vec<u8>, String>,
    ) {
        let is_done = |it: &mut (AccessLevel, Encoding, _)| (it.0, it.1) == (access, encoding);
        for (.., reply) in self.pending_scrapes.extract_if(.., is_done) {
            // Fails only if the client does not wait any more.
            let _ = reply.send(result.clone());
        }
    }
}
