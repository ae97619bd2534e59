//! Where another service serves its files, as Plan 9 and Xcpu write addresses.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

/// Longest name of a host, in bytes (RFC 1035).
const HOST_BYTES: usize = 253;

/// An address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// TCP without authentication, as a service serves it on loopback.
    Tcp(HostPort),
    /// TLS, where both ends have a certificate of the same authority.
    Tls(HostPort),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// A name, or an address of IPv4 or IPv6 without brackets.
    pub host: String,
    /// The port, at least 1.
    pub port: u16,
}

impl Address {
    /// The socket at this path.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix(path.into())
    }
}

impl HostPort {
    /// Parses `HOST!PORT`.
    fn parse(written: &str) -> Option<Self> {
        let (host, port) = written.rsplit_once('!')?;
        let is_of_host =
            |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | ':' | '_');
        let is_host = !host.is_empty() && host.len() <= HOST_BYTES && host.chars().all(is_of_host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        is_host.then(|| Self { host: host.to_owned(), port })
    }
}

impl Display for HostPort {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}!{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    /// A path that begins with a slash, also behind `unix!`; `tcp!HOST!PORT`; `tls!HOST!PORT`.
    fn from_str(written: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{written:?} is no address: expected the path of a 9P socket, tcp!HOST!PORT or \
                 tls!HOST!PORT"
            )
        };
        let path = written.strip_prefix("unix!").unwrap_or(written);
        if path.starts_with('/') {
            return Ok(Self::unix(path));
        }
        let (network, at) = written.split_once('!').ok_or_else(wrong)?;
        let at = HostPort::parse(at).ok_or_else(wrong)?;
        match network {
            "tcp" => Ok(Self::Tcp(at)),
            "tls" => Ok(Self::Tls(at)),
            _ => Err(wrong()),
        }
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(out),
            Self::Tcp(at) => write!(out, "tcp!{at}"),
            Self::Tls(at) => write!(out, "tls!{at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_path_of_a_socket_or_a_host_and_a_port() {
        let path = Address::unix("/run/a.9p");
        assert_eq!("/run/a.9p".parse(), Ok(path.clone()));
        assert_eq!("unix!/run/a.9p".parse(), Ok(path.clone()));
        assert_eq!(path.to_string(), "/run/a.9p");
        for written in ["tcp!127.0.0.1!5640", "tls!n1.site-a.org!5641", "tls!::1!5641"] {
            assert_eq!(written.parse::<Address>().map(|it| it.to_string()), Ok(written.into()));
        }
        let odd = ["", "a.9p", "unix!a", "tcp!host", "tcp!!1", "tls!a!0", "udp!a!1", "tls!a b!1"];
        for other in odd {
            assert!(other.parse::<Address>().is_err(), "{other}");
        }
    }
}
