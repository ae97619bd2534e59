//! Requests from inside the daemon: of the HTTP listener, and of sessions that have monitors.
//!
//! In: scrapes, and calls on loopback connections. Out: jobs for the sampler thread, inputs for the
//! monitor engine. A reading is made only for a scrape.

use super::client_outbox::ClientOutbox;
use super::loopback::{LoopbackRequest, LoopbackSessions};
use super::sampler::{SamplerJob, ScrapeJob};
use super::{DaemonLoop, LoopbackOwner, http_bridge::MetricsReply};
use crate::cluster::{RollupViewer, cluster_metrics, rollup_for};
use crate::http::{AccessLevel, DaemonRequest, LineRefusal, LineRequest};
use crate::policy::{Class, Peer, Policy};
use crate::{line::Arrival, outbox::Outbox};
use monitor_event::right::{ControlGrant, Tool};
use monitor_format::exposition::{Encoding, Exposition};
use monitor_model::{Capability, Ns};
use monitor_monitors::MonitorInput;
use monitor_protocol::rollup::RollupQuery;
use monitor_protocol::{Conn, call::Tag};
use monitor_sampling::visibility::Visibility;
use monitor_sys::{clock, fsuid};
use std::sync::Arc;

/// A user without processes: the overflow uid of Linux.
const OVERFLOW_UID: u32 = 65_534;
/// How long roll-ups are wanted after a scrape: longer than the period of a usual collector.
const WANTED_BY_COLLECTOR: Ns = Ns(150_000_000_000);
/// The refusal of a client without the right to observe.
const NOT_GRANTED: &str = "users are not granted \"observe-own\" here";

impl DaemonLoop {
    /// Handles a request of the HTTP listener.
    pub(super) fn http_request(&mut self, request: DaemonRequest) -> Option<MonitorInput> {
        match request {
            DaemonRequest::Metrics { access, encoding, reply } => {
                self.start_scrape(access, encoding, reply);
                None
            }
            DaemonRequest::Connect { access, outbox, reply } => {
                let connected = self.connect_loopback(access, outbox);
                // The task that has asked waits for it.
                let _ = reply.send(connected);
                None
            }
            DaemonRequest::ConnectUser { peer, rights, outbox, reply } => {
                let connected = self.clients.connect_user((&peer, rights), outbox);
                let connected = connected.map(|(conn, opened)| {
                    self.input(opened);
                    conn
                });
                let _ = reply.send(connected);
                None
            }
            DaemonRequest::Line(request) => self.loopback_line(*request),
            DaemonRequest::UserRights { peer, rights, reply } => {
                let _ = reply.send(self.clients.user_rights(&peer, rights));
                None
            }
            DaemonRequest::Peer { from, message, peer } => self.peer_message(&from, *message, peer),
            DaemonRequest::Call { conn, line } => {
                self.client_arrival(Arrival::Line(conn, line.into()))
            }
            DaemonRequest::Disconnect { conn } => self.client_arrival(Arrival::Closed(conn)),
        }
    }

    /// Opens a loopback connection: of the daemon's own user, or of one that owns nothing.
    fn connect_loopback(
        &mut self,
        access: AccessLevel,
        outbox: Arc<Outbox>,
    ) -> Result<Conn, String> {
        let visibility = self.visibility(access).ok_or(NOT_GRANTED)?;
        let uid = match access {
            AccessLevel::Full => fsuid::effective_uid(),
            AccessLevel::Open => OVERFLOW_UID,
        };
        let peer = Peer { uid, gid: uid, pid: std::process::id(), groups: Vec::new() };
        let rights = (visibility, ControlGrant::None);
        let (conn, opened) = self.clients.admit(&peer, rights, ClientOutbox::Lines(outbox))?;
        self.input(opened);
        Ok(conn)
    }

    /// Opens a loopback connection with its only line, unless the time of that is over.
    fn loopback_line(&mut self, request: LineRequest) -> Option<MonitorInput> {
        let LineRequest { peer, rights, line, until, outbox, reply } = request;
        let connected = match clock::boot() < until {
            true => {
                let connected = self.clients.connect_user((&peer, rights), Arc::clone(&outbox));
                connected.map_err(LineRefusal::Refused)
            }
            false => Err(LineRefusal::Late),
        };
        let (conn, opened) = match connected {
            Ok(connected) => connected,
            Err(why) => {
                // What has sent it waits for the outbox, and then for why that is closed.
                let _ = reply.send(Err(why));
                outbox.close();
                return None;
            }
        };
        self.input(opened);
        let input = self.client_arrival(Arrival::Line(conn, line.into()));
        // Fails only if nothing waits for the lines any longer: then it is closed.
        if reply.send(Ok(conn)).is_err() {
            return self.client_arrival(Arrival::Closed(conn));
        }
        input
    }

    /// Starts a scrape, unless the same metrics are being made.
    fn start_scrape(&mut self, access: AccessLevel, encoding: Encoding, reply: MetricsReply) {
        let Some(visibility) = self.visibility(access) else {
            // Fails only if the client does not wait any more.
            let _ = reply.send(Err(NOT_GRANTED.to_owned()));
            return;
        };
        if !self.http.add_scrape(access, encoding, reply) {
            return;
        }
        self.usage.count_reading();
        self.attached = self.needed_capabilities();
        let job = ScrapeJob {
            access,
            visibility,
            exposed: Arc::clone(&self.exposed),
            encoding,
            status: self.daemon_status(),
            cluster: self.cluster_metrics(&visibility),
            capabilities: self.attached.clone(),
            shed: self.usage.shed(),
        };
        self.send_job(SamplerJob::Scrape(Box::new(job)));
    }

    /// The metrics of the cluster, on a gateway that has a roll-up: at the first scrape, which lets
    /// the nodes begin, it has none.
    fn cluster_metrics(&self, visibility: &Visibility) -> Option<Exposition> {
        let last = self.cluster_bridge.rollup(WANTED_BY_COLLECTOR)?;
        let rollup = last.borrow().clone()?;
        let viewer = match visibility {
            Visibility::All => RollupViewer::All,
            _ => RollupViewer::User(OVERFLOW_UID, None),
        };
        let shown = rollup_for(&viewer, &RollupQuery::default(), &rollup);
        Some(cluster_metrics(&shown, self.exposed.groups))
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

    /// Handles a request of the request thread.
    pub(super) fn loopback_request(
        &mut self,
        owner: LoopbackOwner,
        request: LoopbackRequest,
    ) -> Option<MonitorInput> {
        match request {
            LoopbackRequest::Call(ticket, tool, call) => {
                match self.loopback_connection(owner, &tool) {
                    Ok(from) => {
                        let tag = Some(Tag::Number(ticket.cast_signed()));
                        Some(MonitorInput::Called { from, tag, call })
                    }
                    Err(why) => {
                        self.loopback_of(owner).refuse(ticket, why);
                        None
                    }
                }
            }
            LoopbackRequest::Close(session) => {
                let conn = self.loopback_of(owner).remove(session)?;
                self.client_arrival(Arrival::Closed(conn))
            }
        }
    }

    /// The connection of a session. Its first call opens it.
    fn loopback_connection(&mut self, owner: LoopbackOwner, tool: &Tool) -> Result<Conn, String> {
        let &Tool { session, uid, gid, pid, visibility, .. } = tool;
        if let Some(conn) = self.loopback_of(owner).conn(session) {
            return Ok(conn);
        }
        let outbox = self.loopback_of(owner).outbox();
        let peer = Peer { uid, gid, pid, groups: Vec::new() };
        let rights = (visibility, ControlGrant::None);
        let messages = ClientOutbox::Session(Arc::clone(&outbox));
        let (conn, opened) = self.clients.admit(&peer, rights, messages)?;
        self.input(opened);
        self.loopback_of(owner).add(session, conn, outbox);
        Ok(conn)
    }

    const fn loopback_of(&self, owner: LoopbackOwner) -> &LoopbackSessions {
        match owner {
            LoopbackOwner::Node => &self.loopback,
            LoopbackOwner::Cluster => &self.cluster_loopback,
        }
    }
}
