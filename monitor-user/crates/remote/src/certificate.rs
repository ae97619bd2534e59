//! The files of the certificate of a node.

use std::path::PathBuf;

/// The files, PEM. Nodes have certificates of one authority: each is a client of others, and a
/// server for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate of this node, and those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signs the certificates of nodes.
    pub authority: PathBuf,
}
