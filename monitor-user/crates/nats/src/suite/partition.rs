//! A network that can be cut: connections through it lose nothing, but get nothing while it is cut.

use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes that are forwarded at a time.
const CHUNK: usize = 16_384;

/// The network of a group of nodes.
#[derive(Default)]
pub struct Partition {
    state: watch::Sender<NetworkState>,
    /// Ends with the partition.
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct NetworkState {
    is_cut: bool,
    /// How often the connections of then were forgotten.
    n_forgotten: u64,
}

impl Partition {
    /// Forwards connections to a server; returns the address to connect to. It has the host of the
    /// server, for which the certificate of the server is.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn forward(&mut self, server: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((server.ip(), 0)).await?;
        let address = listener.local_addr()?;
        let state = self.state.subscribe();
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(connect(client, server, state.clone()));
            }
        });
        Ok(address)
    }

    /// Cuts the network, or restores it.
    pub fn cut(&self, is_cut: bool) {
        self.state.send_modify(|state| state.is_cut = is_cut);
    }

    /// Forgets the connections that there are, as a firewall does: their ends see nothing of that.
    pub fn forget(&self) {
        self.state.send_modify(|state| state.n_forgotten += 1);
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mut state: watch::Receiver<NetworkState>) {
    let n_forgotten = match state.wait_for(|state| !state.is_cut).await {
        Ok(state) => state.n_forgotten,
        Err(_) => return,
    };
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    // The end of one direction ends the connection, as a reset does.
    tokio::select! {
        () = copy(from_client, to_server, (state.clone(), n_forgotten)) => {}
        () = copy(from_server, to_client, (state, n_forgotten)) => {}
    }
}

/// Copies until an end is closed. Nothing is seen while the network is cut, not even an end, and
/// nothing more when the connection was forgotten.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (mut state, n_forgotten): (watch::Receiver<NetworkState>, u64),
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n_read = from.read(&mut chunk).await.unwrap_or(0);
        let passes = |it: &NetworkState| !it.is_cut && it.n_forgotten == n_forgotten;
        if state.wait_for(passes).await.is_err() || n_read == 0 {
            return;
        }
        if to.write_all(&chunk[..n_read]).await.is_err() {
            return;
        }
    }
}
