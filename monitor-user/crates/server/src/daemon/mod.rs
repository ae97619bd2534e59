//! The daemon: a loop that answers calls, the sampler thread and the request thread.
//!
//! The loop owns the monitor engine and every connection, and waits for nothing but its inputs.
//! It ends on SIGTERM and SIGINT: clients are notified, probes are detached, the socket is
//! removed. On SIGHUP it reads its configuration again.

mod awaited_exit_records;
mod client_outbox;
mod clients;
mod cluster_bridge;
mod cluster_calls;
pub mod config;
mod cpu_parts;
mod daemon_status;
mod dispatch;
mod drop_notices;
mod file_calls;
mod file_sends;
pub mod files;
mod files_bridge;
mod flight;
mod http_bridge;
mod internal_requests;
mod loopback;
mod migration_calls;
mod node_status;
pub mod reload;
pub(crate) mod request_thread;
mod rule_listing;
pub mod sampler;
mod self_usage;
mod settings;
mod systemd;
mod timer;

pub use settings::{Endpoint, Settings};

use super::files::{DaemonFacts, NodesSource, Spool, Uploads};
use super::migrations::Migrations;
use super::policy::{Class, Policy};
use super::{http, line::Arrival, socket::SocketListener};
use clients::{ClientInput, Clients};
use cluster_bridge::ClusterBridge;
use config::{ClusterConfig, Config};
use file_sends::FileSends;
use files::FileReads;
use files_bridge::FilesBridge;
use http_bridge::HttpBridge;
use loopback::LoopbackSessions;
use monitor_backend::Backend;
use monitor_backends::host;
use monitor_cluster::{Cluster, scope::Node};
use monitor_control::user_worker;
use monitor_model::{Capability, Note, Ns};
use monitor_monitors::{MonitorEngine, MonitorInput, UserLimits};
use monitor_platform::linux::recorder::ServiceConfig;
use monitor_protocol::{Conn, call::Tag};
use monitor_remote::Connector;
use monitor_sampling::scrape::ScrapeConfig;
use monitor_services::context::ClusterMember;
use monitor_sys::{clock, fsuid};
use request_thread::{PlatformLinks, RequestThread};
use sampler::{Sampler, SamplerResult};
use self_usage::{HeapTrim, SelfUsage};
use std::path::{Path, PathBuf};
use std::{sync::Arc, sync::atomic::AtomicBool, time::Duration};
use systemd::{Watchdog, WatchdogTick};
use timer::{Timer, sleep_until};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel, unbounded_channel};

/// Lines that may wait for the loop; when the queue is full, connections are not read.
const ARRIVALS: usize = 1024;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
///
/// When the socket or the HTTP listener cannot be opened, or a thread cannot be started.
pub async fn serve(
    settings: Settings,
    backend: Box<dyn Backend>,
    startup_notes: Vec<Note>,
) -> std::io::Result<()> {
    let mut daemon = DaemonLoop::start(settings, backend, startup_notes).await?;
    daemon.configure_flight(daemon.settings.loaded.config.flight);
    daemon.request_thread.configure(daemon.settings.loaded.config.diag.clone());
    daemon.request_thread.follow(daemon.settings.loaded.config.followed);
    tracing::info!("serving on {}", daemon.settings.endpoint);
    systemd::ready(&daemon.status_line());
    daemon.run().await;
    systemd::stopping();
    daemon.shut_down().await;
    Ok(())
}

/// A node as the request engine names it.
fn cluster_member(node: &Node) -> ClusterMember {
    ClusterMember { node: monitor_omis::Node(node.number), name: node.name.clone() }
}

/// Without `CAP_SETUID` and `CAP_SETGID`, files can be watched only for the daemon's own user.
fn with_file_owner(limits: UserLimits) -> UserLimits {
    let only_files_of = (!fsuid::can_change()).then(fsuid::effective_uid);
    UserLimits { only_files_of, ..limits }
}

struct DaemonLoop {
    settings: Settings,
    backend_name: &'static str,
    cluster: Cluster,
    clients: Clients,
    /// Notified when a user has read what kept its monitors from being read.
    share_freed: Arc<Notify>,
    heap: HeapTrim,
    request_thread: RequestThread,
    sampler: Sampler,
    /// Whether the flight recorder is on, for the request thread.
    flight_enabled: Arc<AtomicBool>,
    files: FileReads,
    usage: SelfUsage,
    watchdog: Watchdog,
    /// Calls that wait for the doctor report of the sampler thread.
    waiting_for_doctor: Vec<(Conn, Tag)>,
    http: HttpBridge,
    /// The 9P listener.
    files_bridge: FilesBridge,
    /// Connections of request sessions that have monitors: of this node, and of the cluster.
    loopback: LoopbackSessions,
    cluster_loopback: LoopbackSessions,
    /// The thread of this node on the bus.
    cluster_bridge: ClusterBridge,
    /// Files that are sent to other nodes.
    file_sends: FileSends,
    /// Processes that come and leave; a node alone has none.
    migrations: Option<Arc<Migrations>>,
    /// What metrics are exposed.
    exposed: Arc<ScrapeConfig>,
    /// The socket; absent if the daemon is reached over HTTP only.
    socket: Option<SocketListener>,
    arrivals: Receiver<Arrival>,
    timer: Timer,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// The capabilities that the sampler thread was last given to attach.
    attached: Vec<Capability>,
}

/// Whose sessions have a loopback connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopbackOwner {
    Node,
    Cluster,
}

/// What can wake the loop.
enum LoopEvent {
    Input(Option<MonitorInput>),
    Sampler(SamplerResult),
    Watchdog(WatchdogTick),
    Http(http::DaemonRequest),
    Loopback(LoopbackOwner, loopback::LoopbackRequest),
    Hangup,
}

/// Files that other nodes send.
fn uploads(config: &ClusterConfig) -> Uploads {
    let bytes = u64::try_from(config.received_bytes).unwrap_or(u64::MAX);
    Uploads::new(Spool::new(config.received_folder()), bytes)
}

/// The migrations that an earlier service has left go on; a node alone has none.
fn open_migrations(config: &ClusterConfig, bridge: &ClusterBridge) -> Option<Arc<Migrations>> {
    let jobs = bridge.jobs()?;
    // The thread of the cluster does not start where it cannot be read.
    let node = (bridge.node(), host::boot_id());
    let received = Spool::path_of(&config.received_folder(), 0, "");
    Some(Migrations::open(node, (config.migrations_folder(), received), jobs))
}

/// What the files of the node say of this service.
fn files_facts(
    settings: &Settings,
    backend: &'static str,
    requests: Sender<http::DaemonRequest>,
) -> DaemonFacts {
    let config = &settings.loaded.config;
    let is_in_cluster = !config.cluster.servers.is_empty();
    let others = match &config.nodes {
        none if none.is_empty() && is_in_cluster => NodesSource::Members,
        nodes => NodesSource::Listed(nodes.clone()),
    };
    DaemonFacts {
        backend,
        requests,
        node: (settings.node.number, settings.node.name.clone()),
        execute: config.execute.clone(),
        others,
        observe_all: config.grants[Class::ObserveAll as usize].clone(),
        uploads: is_in_cluster.then(|| Arc::new(uploads(&config.cluster))),
        aggregator: config.aggregator.clone(),
        connector: Connector::default(),
    }
}

impl DaemonLoop {
    /// Opens the listeners and starts the threads.
    async fn start(
        mut settings: Settings,
        backend: Box<dyn Backend>,
        startup_notes: Vec<Note>,
    ) -> std::io::Result<Self> {
        let undo_folder = settings.endpoint.socket().map(undo_folder);
        let program = &settings.worker_program;
        let undo = || undo_folder.iter().try_for_each(|it| user_worker::undo_left(program, it));
        let mut http = HttpBridge::new();
        let backend_name = backend.kind().name();
        let facts = files_facts(&settings, backend_name, http.requests());
        let (socket, files_bridge) = files_bridge::open_sockets(&settings, facts, undo).await?;
        let Config { limits, connections, grants, budget, .. } = settings.loaded.config.clone();
        let policy = Policy { hidden: settings.hidden, grants };
        let exposed = Arc::new(settings.loaded.config.exposed.clone());
        http.open(&settings.loaded.config, (&settings.endpoint, settings.playback.take())).await?;
        let name = settings.node.name.as_str().into();
        let own = cluster_member(&settings.node);
        let flight_enabled = Arc::new(AtomicBool::new(false));
        let path = settings.endpoint.socket().map(Path::to_owned);
        let dumps = settings.loaded.config.images.clone();
        let worker_program = settings.worker_program.clone();
        let service = ServiceConfig {
            socket: path,
            is_recording: Arc::clone(&flight_enabled),
            dump_folder: dumps,
            undo_folder,
            worker_program,
        };
        let (monitors, loopback) = loopback::pair()?;
        let links = PlatformLinks { service, monitors };
        let (monitors, cluster_loopback) = loopback::pair()?;
        let cluster_links = PlatformLinks { monitors, ..links.clone() };
        let start = (settings.opener, cluster_links);
        let cluster_bridge = ClusterBridge::open(&mut settings, start, http.requests())?;
        let migrations = open_migrations(&settings.loaded.config.cluster, &cluster_bridge);
        // A node alone has no other nodes, and sends them nothing.
        let (outgoing, _) = unbounded_channel();
        let (sender, arrivals) = channel(ARRIVALS);
        let mut engine = MonitorEngine::new(name, with_file_owner(limits));
        engine.set_budget(self_usage::reading_budget(&budget));
        let clients = Clients::new(connections, policy, own.node.0, sender);
        Ok(Self {
            backend_name,
            cluster: Cluster::single_node(engine, settings.node.clone()),
            share_freed: clients.share_freed(),
            heap: HeapTrim::default(),
            clients,
            request_thread: RequestThread::start(own, (settings.opener, links), outgoing)?,
            loopback,
            cluster_loopback,
            cluster_bridge,
            file_sends: FileSends::default(),
            migrations,
            flight_enabled,
            sampler: Sampler::start((settings.node.number, backend), startup_notes)?,
            files: FileReads::default(),
            usage: SelfUsage::new(budget),
            watchdog: Watchdog::new(Duration::from_nanos(budget.window.0)),
            waiting_for_doctor: Vec::new(),
            http,
            files_bridge,
            exposed,
            socket,
            arrivals,
            timer: Timer::new()?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            attached: Vec::new(),
            settings,
        })
    }

    /// Ends the threads and closes the connections.
    async fn shut_down(mut self) {
        if let Some(migrations) = self.migrations.take() {
            migrations.stop().await;
        }
        self.cluster_bridge.stop();
        self.files.stop();
        self.request_thread.stop();
        self.files_bridge.close().await;
        self.http.close().await;
        self.clients.finish().await;
        self.sampler.stop();
        if let Some(socket) = self.settings.endpoint.socket() {
            // Only an empty folder is removed: what is there is still to be undone.
            let _left = std::fs::remove_dir(undo_folder(socket));
        }
    }

    async fn run(&mut self) {
        loop {
            let input = match self.next_event().await {
                LoopEvent::Input(input) => input,
                LoopEvent::Sampler(result) => self.sampler_result(result),
                LoopEvent::Watchdog(tick) => self.watchdog_tick(tick),
                LoopEvent::Http(request) => self.http_request(request),
                LoopEvent::Loopback(owner, request) => self.loopback_request(owner, request),
                LoopEvent::Hangup => self.reload(),
            };
            let Some(input) = input else { continue };
            let over = matches!(input, MonitorInput::Shutdown);
            self.input(input);
            if over {
                return;
            }
        }
    }

    async fn next_event(&mut self) -> LoopEvent {
        let due = self.cluster.due();
        let full_thread = self.cluster_bridge.full_thread().unwrap_or(&self.request_thread);
        let has_room = full_thread.has_room();
        tokio::select! {
            biased;
            _ = self.terminate.recv() => LoopEvent::Input(Some(MonitorInput::Shutdown)),
            _ = self.interrupt.recv() => LoopEvent::Input(Some(MonitorInput::Shutdown)),
            _ = self.hangup.recv() => LoopEvent::Hangup,
            Some(result) = self.sampler.results.recv() => LoopEvent::Sampler(result),
            stat = self.files.next_result() => LoopEvent::Input(Some(stat)),
            () = self.share_freed.notified() => LoopEvent::Input(Some(MonitorInput::Tick)),
            () = sleep_until(self.heap.due()) => {
                self.clients.reap();
                self.heap.trim();
                LoopEvent::Input(None)
            }
            () = self.timer.until(due) => LoopEvent::Input(Some(MonitorInput::Tick)),
            tick = self.watchdog.tick() => LoopEvent::Watchdog(tick),
            request = self.http.next_request() => LoopEvent::Http(request),
            request = self.loopback.next_request() => {
                LoopEvent::Loopback(LoopbackOwner::Node, request)
            }
            request = self.cluster_loopback.next_request() => {
                LoopEvent::Loopback(LoopbackOwner::Cluster, request)
            }
            () = full_thread.wait_for_room(), if !has_room => LoopEvent::Input(None),
            Some(arrival) = self.arrivals.recv(), if has_room => {
                LoopEvent::Input(self.client_arrival(arrival))
            }
            Ok(stream) = next_connection(self.socket.as_ref()) => {
                LoopEvent::Input(self.clients.open(stream))
            }
        }
    }
}

impl DaemonLoop {
    /// Passes a call to the monitor engine and a request to the request thread.
    fn client_arrival(&mut self, arrival: Arrival) -> Option<MonitorInput> {
        if let Arrival::Closed(conn) = &arrival {
            self.cluster_bridge.closed(*conn);
            self.file_sends.closed(*conn);
            self.heap.schedule();
        }
        let (mut input, mut conn) = (None, None);
        if let Arrival::Line(from, _) = &arrival {
            conn = Some((*from, clock::thread_cpu()));
        }
        for client_input in self.clients.receive(arrival) {
            match client_input {
                ClientInput::Input(call) => input = Some(call),
                ClientInput::Closed(conn) => match self.cluster_bridge.end_session(conn) {
                    Some(requests) => requests.close_session(conn),
                    None => self.request_thread.close_session(conn),
                },
                ClientInput::Request(conn, line, first) => {
                    let session = self.cluster_bridge.session(conn);
                    let requests = session.unwrap_or(&self.request_thread);
                    if let Some((tool, outbox)) = first {
                        requests.open_session(tool, outbox);
                    }
                    if !requests.send_request(conn, line) {
                        self.clients.reply_unavailable(conn);
                    }
                }
            }
        }
        if let Some((conn, began)) = conn {
            self.charge(conn, began);
        }
        input
    }

    /// Charges the user of a connection what the daemon has done since then. To read a line and to
    /// write its reply costs as much again.
    fn charge(&self, conn: Conn, began: Ns) {
        self.clients.charge(conn, Ns(clock::thread_cpu().since(began).0 * 2));
    }
}

/// Where a service at this socket writes what is to be undone.
fn undo_folder(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".undo");
    name.into()
}

/// Waits for the next connection; forever, if there is no socket.
async fn next_connection(socket: Option<&SocketListener>) -> std::io::Result<UnixStream> {
    match socket {
        Some(socket) => socket.listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}
