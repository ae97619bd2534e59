//! The HTTP listener: metrics and the web page. Read-only.
//!
//! In: connections. Out: metrics, server-sent events and the files of the page. Off unless
//! configured. Every length and every wait has a limit, and what exceeds one is counted. Knows no
//! monitors and no backend: it requests what it needs from the daemon loop.

mod admission;
mod body;
mod cluster_feed;
mod daemon_request;
mod feed;
mod filter;
mod guard;
mod history;
mod job_ranks;
mod listen;
mod live;
mod loopback;
mod loopback_line;
pub mod message;
mod negotiation;
mod page;
mod playback;
pub mod push;
mod rank_feed;
mod route;
mod state;
mod table;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod token;
mod write_timeout;

pub use daemon_request::{DaemonRequest, LineRefusal, LineRequest, LoopbackRights};
pub use listen::{AccessLevel, Listen};
pub use loopback::LoopbackClient;
pub use loopback_line::{LoopbackLine, NoLines};
pub use playback::PlaybackClock;
pub use state::ListenerState;
pub use token::AccessToken;

use admission::{Admission, HttpPeer};
use feed::{FeedSource, PageFeed};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use monitor_sys::tcp_peer;
use rank_feed::RankFeeds;
use std::{convert::Infallible, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use write_timeout::WriteTimeout;

/// How long a connection may be idle, and the head of a request may take.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Maximum bytes read ahead: the library checks the length of a head when it is complete, and
/// otherwise when the buffer is full.
const BUFFER_BYTES: usize = 2 * HEAD_BYTES;
/// Connections that may wait for `accept`.
const BACKLOG: u32 = 4096;
/// Pause after a failed `accept`, when the process has no descriptor left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The listener.
pub struct HttpListener {
    listener: TcpListener,
    tls: Option<Tls>,
    shared: Arc<ListenerState>,
}

impl HttpListener {
    /// Listens, if that is configured. `folder` is the folder of the daemon's socket, if it has
    /// one; with `playback`, a recording is shown.
    ///
    /// # Errors
    ///
    /// When the configuration is not allowed, or the address or a file cannot be used.
    pub async fn open(
        listen: &Listen,
        (folder, playback): (Option<&Path>, Option<Arc<PlaybackClock>>),
        requests: mpsc::Sender<DaemonRequest>,
    ) -> io::Result<Option<Self>> {
        let Some(address) = listen.address else { return Ok(None) };
        listen.check().map_err(io::Error::other)?;
        let tls = Tls::from_config(listen)?;
        let token = AccessToken::load(listen.token.as_deref(), folder)?;
        let listener = bind(address).map_err(|why| bind_error(address, &why))?;
        let address = listener.local_addr()?;
        let admission = Admission::new(listen.connections);
        let feeds = [AccessLevel::Full, AccessLevel::Open].map(|access| {
            let (requests, playback) = (requests.clone(), playback.clone());
            PageFeed::new(FeedSource { access, requests, playback, admission: admission.clone() })
        });
        let ranks = [AccessLevel::Full, AccessLevel::Open]
            .map(|access| RankFeeds::new(access, requests.clone()));
        let (listen, history_slot) = (listen.clone(), Semaphore::new(1));
        let shared = ListenerState {
            listen,
            address,
            token,
            requests,
            admission,
            history_slot,
            playback,
            feeds,
            ranks,
        };
        Ok(Some(Self { listener, tls, shared: Arc::new(shared) }))
    }

    /// The state that all connections share.
    pub fn shared(&self) -> Arc<ListenerState> {
        Arc::clone(&self.shared)
    }

    /// Accepts connections, without end.
    pub async fn run(self) {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    // Without a free descriptor, the connection stays in the backlog.
                    tracing::warn!("the HTTP listener cannot accept a connection: {why}");
                    sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            let peer = http_peer(&stream, peer);
            let Some(slot) = self.shared.admission.admit(peer) else { continue };
            let (shared, tls) = (Arc::clone(&self.shared), self.tls.clone());
            let number = slot.number;
            let task = tokio::spawn(async move {
                let _slot = slot;
                serve_connection(shared, tls, (stream, number)).await;
            });
            self.shared.admission.set_end(number, task.abort_handle());
        }
    }
}

/// Whose connection it is: on this machine, that of the user of its other end.
fn http_peer(stream: &TcpStream, peer: SocketAddr) -> HttpPeer {
    let own =
        stream.local_addr().ok().filter(|own| own.ip().is_loopback() || own.ip() == peer.ip());
    match own.and_then(|own| tcp_peer::user(own, peer)) {
        Some(uid) => HttpPeer::User(uid),
        None => HttpPeer::Address(peer.ip()),
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Sockets of a previous daemon in TIME_WAIT do not prevent the bind.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind_error(address: SocketAddr, why: &io::Error) -> io::Error {
    let text = match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another program uses it; choose another port \
            (http.listen, or the argument of --page)"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine has no such address")
        }
        _ => format!("cannot listen on {address}: {why}"),
    };
    io::Error::new(why.kind(), text)
}

/// Serves one connection until either side closes it.
async fn serve_connection(
    shared: Arc<ListenerState>,
    tls: Option<Tls>,
    (stream, number): (TcpStream, u64),
) {
    // Without Nagle's algorithm, which would delay an event until the next one.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return serve_requests(shared, stream, (number, false)).await;
    };
    match timeout(IDLE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok((stream, is_authenticated))) => {
            serve_requests(shared, stream, (number, is_authenticated)).await
        }
        Ok(Err(_)) | Err(_) => shared.admission.count("TLS handshake failed"),
    }
}

/// Serves one connection over any stream, without TLS, until either side closes it.
pub async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<ListenerState>,
    stream: S,
) {
    serve_requests(shared, stream, (0, false)).await;
}

async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<ListenerState>,
    stream: S,
    (number, is_authenticated): (u64, bool),
) {
    let stream = WriteTimeout::new(stream);
    let stalled = stream.stalled();
    let service = service_fn(|request| {
        shared.admission.request_received(number);
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(route::answer(&shared, &request, is_authenticated).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
    builder.max_header_size(HEAD_BYTES).max_buf_size(BUFFER_BYTES);
    // An error concerns this connection only.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    if stalled.load(std::sync::atomic::Ordering::Relaxed) {
        shared.admission.count("reader too slow");
    }
}
