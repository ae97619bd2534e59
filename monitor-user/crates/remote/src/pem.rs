//! Certificates and keys in PEM files.
//!
//! In: paths. Out: what rustls takes, or an error that names the file.

use std::{io, path::Path};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificates of a file, at least one.
///
/// # Errors
///
/// When the file cannot be read or is not valid.
pub fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).map_err(|why| wrong(path, &why))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|why| wrong(path, &why))?;
    if all.is_empty() {
        return Err(wrong(path, &"the file contains no certificate"));
    }
    Ok(all)
}

/// The authorities of a file.
///
/// # Errors
///
/// As [`certificates`].
pub fn authorities(path: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|why| wrong(path, &why))?;
    }
    Ok(roots)
}

/// The private key of a file.
///
/// # Errors
///
/// When the file cannot be read or has none.
pub fn private_key(path: &Path) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|why| wrong(path, &why))
}

/// An error that names the file.
pub fn wrong(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}
