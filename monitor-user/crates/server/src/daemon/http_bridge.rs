//! Requests of the HTTP listener to the daemon loop.
//!
//! In: requests of the listener. Out: jobs for the sampler thread, and answers. Scrapes that
//! arrive while the same metrics are made share them. A reading is made only for a scrape.

use super::sampler::{SamplerJob, ScrapeJob};
use super::{DaemonLoop, Endpoint};
use crate::http::push;
use crate::http::push::PushStatus;
use crate::http::{AccessLevel, DaemonRequest, HttpListener, ListenerState, PlaybackClock};
use crate::line::Arrival;
use crate::outbox::Outbox;
use crate::policy::{Class, Peer, Policy};
use monitor_format::exposition::Encoding;
use monitor_model::read_spec::Capability;
use monitor_protocol::Conn;
use monitor_protocol::status::{HttpStatus, OtlpStatus};
use monitor_sampling::visibility::Visibility;
use monitor_sys::fsuid;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Requests that may wait for the loop.
const REQUESTS: usize = 64;
/// A user without processes: the overflow uid of Linux.
const OVERFLOW_UID: u32 = 65_534;

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
    has_collector: bool,
}

type MetricsReply = oneshot::Sender<Result<Vec<u8>, String>>;

impl HttpBridge {
    /// Without a listener.
    pub fn new() -> Self {
        let (sender, requests) = channel(REQUESTS);
        let (shared, push_status, tasks) = (None, None, Vec::new());
        Self {
            requests,
            sender,
            shared,
            push_status,
            tasks,
            pending_scrapes: Vec::new(),
            has_collector: false,
        }
    }

    /// Starts to listen and to push, if that is configured.
    pub async fn open(
        &mut self,
        config: &super::Config,
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
}

impl DaemonLoop {
    pub(super) fn http_request(&mut self, request: DaemonRequest) {
        match request {
            DaemonRequest::Metrics { access, encoding, reply } => {
                self.start_scrape(access, encoding, reply);
            }
            DaemonRequest::Connect { access, outbox, reply } => {
                let connected = self.connect_loopback(access, outbox);
                // If the client is gone already, its `Disconnect` follows.
                let _ = reply.send(connected);
            }
            DaemonRequest::Call { conn, line } => self.client_input(Arrival::Line(conn, line)),
            DaemonRequest::Disconnect { conn } => self.client_input(Arrival::Closed(conn)),
        }
    }

    fn client_input(&mut self, arrival: Arrival) {
        if let Some(input) = self.client_arrival(arrival) {
            self.input(input);
        }
    }

    /// Opens a loopback connection: of the daemon's own user, or of one that owns nothing.
    fn connect_loopback(
        &mut self,
        access: AccessLevel,
        outbox: Arc<Outbox>,
    ) -> Result<Conn, String> {
        let visibility =
            self.visibility(access).ok_or("users are not granted \"observe-own\" here")?;
        let (uid, pid) = match access {
            AccessLevel::Full => (fsuid::effective_uid(), std::process::id()),
            AccessLevel::Open => (OVERFLOW_UID, std::process::id()),
        };
        let peer = Peer { uid, gid: uid, pid, groups: Vec::new() };
        let (conn, input) = self.clients.admit(&peer, (visibility, outbox))?;
        self.input(input);
        Ok(conn)
    }

    /// Starts a scrape, unless the same metrics are being made.
    fn start_scrape(&mut self, access: AccessLevel, encoding: Encoding, reply: MetricsReply) {
        let Some(visibility) = self.visibility(access) else {
            // Fails only if the client does not wait any more.
            let _ = reply.send(Err("users are not granted \"observe-own\" here".to_owned()));
            return;
        };
        let is_pending =
            self.http.pending_scrapes.iter().any(|it| (it.0, it.1) == (access, encoding));
        self.http.pending_scrapes.push((access, encoding, reply));
        if is_pending {
            return;
        }
        self.http.has_collector = true;
        let (capabilities, shed) = (self.needed_capabilities(), self.usage.shed());
        self.usage.count_reading();
        self.attached.clone_from(&capabilities);
        let exposed = Arc::clone(&self.exposed);
        let job = ScrapeJob {
            access,
            visibility,
            exposed,
            encoding,
            status: self.daemon_status(),
            capabilities,
            shed,
        };
        self.send_job(SamplerJob::Scrape(Box::new(job)));
    }

    /// Answers the scrapes that wait for this result.
    pub(super) fn finish_scrape(
        &mut self,
        (access, encoding): (AccessLevel, Encoding),
        result: &Result<Vec<u8>, String>,
    ) {
        let all = std::mem::take(&mut self.http.pending_scrapes);
        let (done, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| (it.0, it.1) == (access, encoding));
        self.http.pending_scrapes = rest;
        for (.., reply) in done {
            let _ = reply.send(result.clone());
        }
    }

    /// The processes that an access level may see; `None` without the right to observe.
    fn visibility(&self, access: AccessLevel) -> Option<Visibility> {
        let grants = self.settings.loaded.config.grants.clone();
        let policy = Policy { hidden: self.settings.hidden, grants };
        let anonymous = Peer { uid: OVERFLOW_UID, gid: OVERFLOW_UID, ..Peer::default() };
        match access {
            AccessLevel::Full => Some(Visibility::All),
            AccessLevel::Open => {
                policy.grants(&anonymous, Class::ObserveOwn).then(|| policy.visibility(&anonymous))
            }
        }
    }

    /// The capabilities that scraped metrics need.
    pub(super) fn exposed_capabilities(&self) -> &[Capability] {
        if self.http.has_collector { &self.exposed.histograms } else { &[] }
    }
}
