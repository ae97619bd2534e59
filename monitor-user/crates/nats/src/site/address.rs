//! The address of a server: a host, and the ports for nodes, between servers, and for racks.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The port of a server, if none is given.
pub const PORT: u16 = 4222;
/// By how much the port between servers is above that for nodes.
const ROUTE_PORT: u16 = 2000;
/// By how much the port for servers of racks is above that for nodes.
const LEAF_PORT: u16 = 3200;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerAddress {
    /// A name or an address.
    pub host: String,
    /// The port for nodes.
    pub port: u16,
}

impl ServerAddress {
    /// Parses `HOST` or `HOST:PORT`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected a server such as n1, n1:4222 or [::1]:4222");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (text, PORT),
        };
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let is_name = |host: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            host.bytes().all(is_plain) && !host.starts_with(['-', '.'])
        };
        let is_host = !host.is_empty() && (host.parse::<IpAddr>().is_ok() || is_name(host));
        let is_port = port > 0 && port <= u16::MAX - LEAF_PORT;
        (is_host && is_port).then(|| Self { host: host.to_owned(), port }).ok_or_else(wrong)
    }

    /// The address, if it is one and no name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The address for nodes.
    pub fn url(&self) -> String {
        format!("tls://{self}")
    }

    /// The same host, at the port between servers.
    pub fn route(&self) -> Self {
        Self { host: self.host.clone(), port: self.port + ROUTE_PORT }
    }

    /// The same host, at the port for servers of racks.
    pub fn leaf(&self) -> Self {
        Self { host: self.host.clone(), port: self.port + LEAF_PORT }
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ip() {
            Some(IpAddr::V6(host)) => write!(out, "[{host}]:{}", self.port),
            _ => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<ServerAddress> for String {
    fn from(address: ServerAddress) -> Self {
        address.to_string()
    }
}
