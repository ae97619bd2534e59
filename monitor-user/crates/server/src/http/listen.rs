//! The configuration of the HTTP listener, and the access that it gives.
//!
//! In: the configuration. Out: whether it is allowed, and the access level without a token. On
//! loopback every user of the machine can connect, so a client without the token sees what any
//! user may see; beyond loopback nothing is shown without the token or a certificate.

use std::{net::SocketAddr, path::PathBuf};

/// The configuration of the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address; off, if absent.
    pub address: Option<SocketAddr>,
    /// Accepted host names, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file of the token; next to the socket, if absent.
    pub token: Option<PathBuf>,
    /// The certificate chain, PEM; no TLS, if absent.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, PEM.
    pub key: Option<PathBuf>,
    /// The authority that signs client certificates with full access, PEM.
    pub clients: Option<PathBuf>,
    /// Largest number of simultaneous connections.
    pub connections: usize,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: None,
            hosts: Vec::new(),
            token: None,
            certificate: None,
            key: None,
            clients: None,
            connections: 256,
        }
    }
}

/// What a client may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessLevel {
    /// What the daemon itself sees.
    Full,
    /// What a user without processes may see.
    Open,
}

impl Listen {
    /// Whether the configuration is allowed, or what is missing.
    pub fn check(&self) -> Result<(), String> {
        let pair = (self.certificate.is_some(), self.key.is_some());
        match pair {
            (true, false) => return Err("http.certificate without http.key: set http.key".into()),
            (false, true) => return Err("http.key without http.certificate: set both".into()),
            _ => {}
        }
        if self.clients.is_some() && self.certificate.is_none() {
            return Err("http.clients without http.certificate: TLS needs a certificate".into());
        }
        let Some(address) = self.address.filter(|_| !self.is_loopback()) else { return Ok(()) };
        if self.token.is_some() || self.certificate.is_some() {
            return Ok(());
        }
        Err(format!(
            "http.listen {address} can be reached from other machines: set http.token, or \
            http.certificate and http.key, or listen on 127.0.0.1"
        ))
    }

    /// Whether it can be reached only from this machine.
    pub fn is_loopback(&self) -> bool {
        self.address.is_none_or(|it| it.ip().is_loopback())
    }

    /// The access level without a token and without a certificate.
    pub fn anonymous_access(&self) -> Option<AccessLevel> {
        self.is_loopback().then_some(AccessLevel::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Listen {
        Listen { address: Some(address.parse().expect("an address")), ..Listen::default() }
    }

    #[test]
    fn beyond_loopback_it_needs_a_token_or_tls() {
        assert!(at("127.0.0.1:1").check().is_ok() && at("[::1]:1").check().is_ok());
        let why = at("0.0.0.0:9464").check().expect_err("not allowed");
        assert!(
            why.starts_with("http.listen 0.0.0.0:9464 can be reached from other machines"),
            "{why}"
        );
        let token = Some("/x".into());
        assert!(Listen { token, ..at("0.0.0.0:1") }.check().is_ok());
        let (certificate, key) = (Some("/x".into()), Some("/y".into()));
        assert!(Listen { certificate, key, ..at("[::]:1") }.check().is_ok());
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        let half = Listen { certificate: Some("/x".into()), ..at("127.0.0.1:1") };
        assert!(half.check().is_err());
        assert!(Listen { clients: Some("/x".into()), ..at("127.0.0.1:1") }.check().is_err());
    }

    #[test]
    fn anonymous_access_is_limited_to_loopback() {
        assert_eq!(at("127.0.0.1:1").anonymous_access(), Some(AccessLevel::Open));
        assert_eq!(at("10.0.0.1:1").anonymous_access(), None);
    }
}
