//! The registration of a job at the PMIx server of the node, by its host.
//!
//! In: a job. Out: a connection to the socket of that server, as long as the host lives.

use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The variable that names the socket at which hosts register.
pub const VARIABLE: &str = "MONITOR_RENDEZVOUS";
/// Its usual path.
pub const SOCKET: &str = "/run/monitor-rendezvous/hosts.sock";
/// Longest texts of a registration, bytes.
const LONGEST: usize = 1024;
/// How long a host waits until it looks for the server of the node again.
const AGAIN: Duration = Duration::from_secs(5);

/// The socket at which hosts register.
pub fn socket() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(SOCKET), PathBuf::from)
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredJob {
    /// The user of its host, as the kernel knows it; what a host says of it has no effect.
    #[serde(default)]
    pub uid: u32,
    /// Its namespace.
    pub namespace: String,
    /// The URI of its host.
    pub uri: String,
    /// Its program.
    pub command: String,
    /// The process of its host; what a host says of it has no effect.
    #[serde(default)]
    pub pid: u32,
}

impl RegisteredJob {
    /// Whether its texts are those of a host of this program: a tool connects to its URI.
    pub fn is_plain(&self) -> bool {
        // The names of namespaces are listed with commas between them.
        let is_name = self.namespace.starts_with("monitor-") && !self.namespace.contains(',');
        let is_short = [&self.namespace, &self.uri, &self.command]
            .into_iter()
            .all(|it| it.len() <= LONGEST && !it.chars().any(char::is_control));
        let port = self.uri.rsplit_once(";tcp4://127.0.0.1:").map(|(_, port)| port);
        let is_local = port.is_some_and(|it| it.parse::<u16>().is_ok());
        is_short && is_local && is_name
    }
}

/// Registers a job at the server of the node while this process lives, also when that comes later.
/// It believes a socket of root, or of this user.
///
/// # Errors
/// If no thread can be started.
pub fn register(job: RegisteredJob) -> io::Result<()> {
    std::thread::Builder::new().name("rendezvous".into()).spawn(move || {
        loop {
            // There is no server, or it has ended: it is looked for again.
            let _gone = register_once(&job);
            std::thread::sleep(AGAIN);
        }
    })?;
    Ok(())
}

fn register_once(job: &RegisteredJob) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket())?;
    let peer = socket_peercred(&stream)?.uid;
    if !peer.is_root() && peer != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut line = serde_json::to_vec(job)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    // It ends when the server does.
    stream.read(&mut [0]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_another_node_or_with_lines_is_none_of_a_host() {
        let job = |namespace: &str, uri: &str| RegisteredJob {
            uid: 0,
            namespace: namespace.to_owned(),
            uri: uri.to_owned(),
            command: "./a".to_owned(),
            pid: 0,
        };
        let uri = "monitor-pmix.0;tcp4://127.0.0.1:9";
        assert!(job("monitor-7", uri).is_plain());
        assert!(!job("prterun-7", uri).is_plain());
        assert!(!job("monitor-7\n", uri).is_plain());
        assert!(!job("monitor-7", "a.0;tcp4://10.0.0.1:9").is_plain());
        assert!(!job("monitor-7", "a.0;tcp4://127.0.0.1:99999").is_plain());
    }
}
