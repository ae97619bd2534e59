//! A connection to the servers, with the user of a node, and with TLS where an address says so.
//!
//! In: addresses, a user, a file of certificates. Out: a client of the library, which connects
//! again by itself. Only the servers that are named are used: those that a server names may have no
//! certificate for that address.

use super::credentials::NatsUser;
use super::failure::{Failed, TIMEOUT, failed};
use super::permissions::inbox_prefix;
use async_nats::{Client, ConnectOptions, Event};
use std::path::PathBuf;
use std::time::Duration;

/// The longest time between two attempts to reach the server.
const RECONNECT: Duration = Duration::from_millis(500);
/// After this time without a message of the server it is asked for one; when it has not answered
/// twice, the connection is made again. `silence` notices that sooner, and without a timer.
const PING: Duration = Duration::from_secs(30);
/// How an address begins to which nothing is sent in the clear.
pub const TLS: &str = "tls://";

/// How the servers are reached.
#[derive(Clone)]
pub struct NatsConnection {
    /// Their addresses, such as `nats://127.0.0.1:4222` or `tls://n1:4222`.
    pub servers: Vec<String>,
    /// The user of this node; a server without accounts needs none.
    pub user: Option<NatsUser>,
    /// The certificates of those that sign certificates of servers; none: those of the host.
    pub ca: Option<PathBuf>,
    /// The name of this node.
    pub node: String,
}

impl NatsConnection {
    /// Connects, and says what happens to the connection later.
    pub(crate) async fn connect(
        &self,
        on_event: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Client, Failed> {
        let options = match self.user.clone() {
            Some(NatsUser::Seed(seed)) => ConnectOptions::with_nkey(seed),
            Some(NatsUser::Password { name, password }) => {
                ConnectOptions::with_user_and_password(name, password)
            }
            None => ConnectOptions::new(),
        };
        let options = self.ca.iter().fold(options, |it, ca| it.add_root_certificates(ca.clone()));
        let options = options
            .name(format!("monitor {}", self.node))
            .custom_inbox_prefix(inbox_prefix(&self.node))
            .require_tls(self.servers.iter().any(|it| it.starts_with(TLS)))
            .ignore_discovered_servers()
            .ping_interval(PING)
            .connection_timeout(TIMEOUT)
            .request_timeout(Some(TIMEOUT))
            .max_reconnects(None)
            .reconnect_delay_callback(|attempt| {
                let factor = u32::try_from(attempt).unwrap_or(u32::MAX);
                RECONNECT.min(Duration::from_millis(20).saturating_mul(factor))
            })
            .event_callback(move |event| {
                on_event(event);
                std::future::ready(())
            });
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(failed("connection to the server"))
    }
}
