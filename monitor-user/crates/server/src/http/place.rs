//! Where it listens, and what that asks of whoever comes.
//!
//! In: the configuration. Out: whether it may listen so, and whom a connection shows what. On
//! loopback every user of the machine can connect, so without the token he sees what any user may;
//! beyond it nothing is shown without the token or a certificate.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The configuration of the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where; nowhere, if absent.
    pub address: Option<SocketAddr>,
    /// Names under which it is called, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file of the token; beside the socket, if absent.
    pub token: Option<PathBuf>,
    /// The certificate and what was signed with it, PEM; no TLS, if absent.
    pub certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// Who signs the certificates of those who may see all, PEM.
    pub clients: Option<PathBuf>,
    /// Most connections at the same time.
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

/// What may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// What the service itself sees.
    Full,
    /// What a user sees who owns nothing here.
    Open,
}

impl Listen {
    /// Whether it may listen so, or what is missing.
    pub fn allowed(&self) -> Result<(), String> {
        let pair = (self.certificate.is_some(), self.key.is_some());
        match pair {
            (true, false) => return Err("http.certificate without http.key: name its key".into()),
            (false, true) => return Err("http.key without http.certificate: name both".into()),
            _ => {}
        }
        if self.clients.is_some() && self.certificate.is_none() {
            return Err("http.clients without http.certificate: there is no TLS without".into());
        }
        let Some(address) = self.address.filter(|_| !self.local()) else { return Ok(()) };
        if self.token.is_some() || self.certificate.is_some() {
            return Ok(());
        }
        Err(format!(
            "http.listen {address} is reached from other machines: name a file for http.token, or \
             http.certificate and http.key, or listen on 127.0.0.1"
        ))
    }

    /// Whether only this machine reaches it.
    pub fn local(&self) -> bool {
        self.address.is_none_or(|it| it.ip().is_loopback())
    }

    /// What somebody sees who has proved nothing.
    pub fn stranger(&self) -> Option<Sight> {
        self.local().then_some(Sight::Open)
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
        assert!(at("127.0.0.1:1").allowed().is_ok() && at("[::1]:1").allowed().is_ok());
        let why = at("0.0.0.0:9464").allowed().expect_err("it is open");
        assert!(
            why.starts_with("http.listen 0.0.0.0:9464 is reached from other machines"),
            "{why}"
        );
        let token = Some("/x".into());
        assert!(Listen { token, ..at("0.0.0.0:1") }.allowed().is_ok());
        let (certificate, key) = (Some("/x".into()), Some("/y".into()));
        assert!(Listen { certificate, key, ..at("[::]:1") }.allowed().is_ok());
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        let half = Listen { certificate: Some("/x".into()), ..at("127.0.0.1:1") };
        assert!(half.allowed().is_err());
        assert!(Listen { clients: Some("/x".into()), ..at("127.0.0.1:1") }.allowed().is_err());
    }

    #[test]
    fn a_stranger_sees_something_on_loopback_only() {
        assert_eq!(at("127.0.0.1:1").stranger(), Some(Sight::Open));
        assert_eq!(at("10.0.0.1:1").stranger(), None);
    }
}
