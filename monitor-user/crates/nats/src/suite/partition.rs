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
pub struct Partition {
    is_cut: watch::Sender<bool>,
    /// Ends with the partition.
    tasks: JoinSet<()>,
}

impl Default for Partition {
    fn default() -> Self {
        Self { is_cut: watch::Sender::new(false), tasks: JoinSet::new() }
    }
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
        let is_cut = self.is_cut.subscribe();
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(connect(client, server, is_cut.clone()));
            }
        });
        Ok(address)
    }

    /// Cuts the network, or restores it.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mut is_cut: watch::Receiver<bool>) {
    if is_cut.wait_for(|is_cut| !is_cut).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    // The end of one direction ends the connection, as a reset does.
    tokio::select! {
        () = copy(from_client, to_server, is_cut.clone()) => {}
        () = copy(from_server, to_client, is_cut) => {}
    }
}

/// Copies until an end is closed. Nothing is seen while the network is cut, not even an end.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_cut: watch::Receiver<bool>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n_read = from.read(&mut chunk).await.unwrap_or(0);
        if is_cut.wait_for(|is_cut| !is_cut).await.is_err() || n_read == 0 {
            return;
        }
        if to.write_all(&chunk[..n_read]).await.is_err() {
            return;
        }
    }
}
