//! The HTTP listener: metrics for whoever collects them, and the page. Only reads.
//!
//! In: connections. Out: what the service answers, as metrics, events of a page, or its files.
//! Off unless configured. Every length and every wait has a bound, and what goes over one is
//! counted. Knows no monitor and no backend: what it needs it asks the service for.

mod admission;
mod body;
mod dial;
mod feed;
mod fits;
mod guard;
mod guest;
mod history;
mod live;
mod message;
mod negotiation;
mod page;
mod patience;
mod place;
pub mod push;
mod route;
mod secret;
mod table;
mod tls;

pub use dial::Dial;
pub use place::{Listen, Sight};
pub use secret::Secret;

use crate::outbox::Outbox;
use admission::Admission;
use bytes::Bytes;
use feed::Feed;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use monitor_format::exposition::Encoding;
use monitor_protocol::Conn;
use monitor_protocol::status::Http;
use patience::Patient;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// How long a connection may say nothing, and a request take to arrive.
const SILENCE: Duration = Duration::from_secs(10);
/// Longest head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;
/// How long the listener rests where the process has no descriptor left.
const REST: Duration = Duration::from_millis(100);

/// What the listener asks the service for.
pub enum Ask {
    /// Metrics, as they are now.
    Metrics {
        /// What may be seen.
        sight: Sight,
        /// How they are written.
        encoding: Encoding,
        /// Where they go, or why there are none.
        reply: oneshot::Sender<Result<Vec<u8>, String>>,
    },
    /// A connection from within.
    Join {
        /// What may be seen.
        sight: Sight,
        /// Where its lines go.
        outbox: Arc<Outbox>,
        /// Its number, or why it is refused.
        reply: oneshot::Sender<Result<Conn, String>>,
    },
    /// A call on it.
    Say {
        /// Which.
        conn: Conn,
        /// The call.
        line: Bytes,
    },
    /// Its end.
    Leave {
        /// Which.
        conn: Conn,
    },
}

/// The listener.
pub struct Door {
    listener: TcpListener,
    tls: Option<Tls>,
    shared: Arc<Shared>,
}

/// What all connections share.
pub struct Shared {
    listen: Listen,
    address: SocketAddr,
    secret: Secret,
    asks: mpsc::Sender<Ask>,
    admission: Admission,
    /// Who reads the past: one at a time.
    past: Semaphore,
    /// Where in a recording this is; absent where it happens now.
    dial: Option<Arc<Dial>>,
    /// For who has proved something, and for who has not.
    feeds: [Feed; 2],
}

impl Door {
    /// Listens, if that is configured and may be. `beside` is the folder of the service's socket,
    /// if it has one; with a dial, a recording is shown.
    pub async fn open(
        listen: &Listen,
        (beside, dial): (Option<&Path>, Option<Arc<Dial>>),
        asks: mpsc::Sender<Ask>,
    ) -> io::Result<Option<Self>> {
        let Some(address) = listen.address else { return Ok(None) };
        listen.allowed().map_err(io::Error::other)?;
        let tls = Tls::of(listen)?;
        let secret = Secret::of(listen.token.as_deref(), beside)?;
        let listener = bound(address).map_err(|why| taken(address, &why))?;
        let address = listener.local_addr()?;
        let admission = Admission::new(listen.connections);
        let (listen, feeds) = (listen.clone(), Default::default());
        let past = Semaphore::new(1);
        let shared = Shared { listen, address, secret, asks, admission, past, dial, feeds };
        Ok(Some(Self { listener, tls, shared: Arc::new(shared) }))
    }

    /// What it counts.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Serves for ever.
    pub async fn run(self) {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(why) => {
                    // Without a descriptor the connection stays, and waits.
                    tracing::warn!("the HTTP listener cannot take a connection: {why}");
                    sleep(REST).await;
                    continue;
                }
            };
            let Some(place) = self.shared.admission.enter() else { continue };
            let (shared, tls) = (Arc::clone(&self.shared), self.tls.clone());
            let number = place.number;
            let task = tokio::spawn(async move {
                let _place = place;
                converse(shared, tls, (stream, number)).await;
            });
            self.shared.admission.silent(number, task.abort_handle());
        }
    }
}

impl Shared {
    /// The numbers of the listener.
    pub fn status(&self) -> Http {
        let token = self.secret.path().map_or_else(String::new, |it| it.display().to_string());
        Http { address: self.origin(), token, ..self.admission.counts() }
    }

    /// The address of the page, with the token that shows all.
    pub fn page(&self) -> String {
        format!("{}/#token={}", self.origin(), self.secret.text())
    }

    fn origin(&self) -> String {
        let scheme = if self.listen.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // What a service left behind that ended a moment ago keeps nobody out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn taken(address: SocketAddr, why: &io::Error) -> io::Error {
    let text = match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another program does; choose another port \
             (http.listen, or behind --page)"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("cannot listen on {address}: this machine has no such address")
        }
        _ => format!("cannot listen on {address}: {why}"),
    };
    io::Error::new(why.kind(), text)
}

/// One connection, until either side has enough.
async fn converse(shared: Arc<Shared>, tls: Option<Tls>, (stream, number): (TcpStream, u64)) {
    // What is written goes out at once: an event that waits for the next one is late.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return requests(shared, stream, (number, false)).await;
    };
    match timeout(SILENCE, tls.accept(stream)).await {
        Ok(Ok((stream, known))) => requests(shared, stream, (number, known)).await,
        Ok(Err(_)) | Err(_) => shared.admission.count("TLS handshake failed"),
    }
}

async fn requests<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<Shared>,
    stream: S,
    (number, known): (u64, bool),
) {
    let stream = Patient::new(stream);
    let stalled = stream.stalled();
    let service = service_fn(|request| {
        shared.admission.spoke(number);
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(route::answer(&shared, &request, known).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SILENCE).max_buf_size(HEAD_BYTES);
    // Whatever ends a connection, it ends it for its client alone.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    if stalled.load(std::sync::atomic::Ordering::Relaxed) {
        shared.admission.count("reader too slow");
    }
}
