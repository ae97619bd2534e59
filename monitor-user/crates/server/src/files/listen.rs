//! Where the files are served beside the Unix socket, and what that needs.
//!
//! In: the configuration. Out: whether it is allowed, and the address that other nodes use. Opens
//! nothing.

use monitor_remote::{Address, CertificateFiles, HostPort};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The listeners beside the Unix socket; both are off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesListen {
    /// TCP on loopback, without authentication.
    pub plain: Option<SocketAddr>,
    /// TLS for other nodes.
    pub tls: Option<SocketAddr>,
    /// The certificate of this node, PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, PEM.
    pub key: Option<PathBuf>,
    /// The authority that signs the certificates of nodes, PEM.
    pub authority: Option<PathBuf>,
}

impl FilesListen {
    /// The files of the certificate; none, if none is configured.
    ///
    /// # Errors
    ///
    /// When the configuration is not allowed, or misses one of the files.
    pub fn check(&self) -> Result<Option<CertificateFiles>, String> {
        if let Some(address) = self.plain.filter(|it| !it.ip().is_loopback()) {
            return Err(format!(
                "files.listen {address} can be reached from other machines, and its clients are \
                 not authenticated: listen on 127.0.0.1, or use files.tls with a certificate"
            ));
        }
        match (&self.certificate, &self.key, &self.authority) {
            (Some(certificate), Some(key), Some(authority)) => Ok(Some(CertificateFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
            })),
            (None, None, None) => match self.tls {
                None => Ok(None),
                Some(address) => Err(format!(
                    "files.tls {address} needs certificates: set files.certificate, files.key and \
                     files.authority"
                )),
            },
            _ => Err("files.certificate, files.key and files.authority belong together: set all \
                      three"
                .to_owned()),
        }
    }
}

/// The address for other nodes of a listener: by the name of this node if that is on all addresses.
pub fn address_for_nodes(node: &str, bound: SocketAddr) -> Address {
    let is_on_all = bound.ip().is_unspecified();
    let host = if is_on_all { node.to_owned() } else { bound.ip().to_string() };
    Address::Tls(HostPort { host, port: bound.port() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Option<SocketAddr> {
        Some(address.parse().expect("an address"))
    }

    #[test]
    fn without_tls_it_listens_on_loopback_alone() {
        for near in ["127.0.0.1:5640", "[::1]:5640"] {
            let it = FilesListen { plain: at(near), ..FilesListen::default() };
            assert_eq!(it.check(), Ok(None));
        }
        for far in ["0.0.0.0:5640", "10.0.0.1:1", "[::]:1"] {
            let it = FilesListen { plain: at(far), ..FilesListen::default() };
            let why = it.check().expect_err("refused");
            assert!(why.starts_with(&format!("files.listen {far} can be reached")), "{why}");
        }
    }

    #[test]
    fn tls_needs_all_three_files() {
        let alone = FilesListen { tls: at("127.0.0.1:1"), ..FilesListen::default() };
        assert!(alone.check().is_err_and(|why| why.contains("needs certificates")));
        let path = |name: &str| Some(PathBuf::from(name));
        let two = FilesListen { certificate: path("/c"), key: path("/k"), ..alone };
        assert!(two.check().is_err_and(|why| why.contains("set all three")));
        let all = FilesListen { authority: path("/a"), ..two };
        assert_eq!(all.check().expect("allowed").expect("files").key, PathBuf::from("/k"));
    }

    #[test]
    fn other_nodes_use_the_name_of_a_node_that_listens_on_all_addresses() {
        let of = |bound: &str| address_for_nodes("n1", bound.parse().expect("it")).to_string();
        assert_eq!(of("0.0.0.0:5641"), "tls!n1!5641");
        assert_eq!(of("10.0.0.1:5641"), "tls!10.0.0.1!5641");
    }
}
