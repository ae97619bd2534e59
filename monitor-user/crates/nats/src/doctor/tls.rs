//! The certificate of a server: whether this node accepts it, and until when.
//!
//! In: a connection whose handshake has not begun. Out: a finding. When a certificate ends is what
//! the verifier says of it at a time at which it has ended: so nothing here reads certificates.

use super::finding::Finding;
use crate::failure::TIMEOUT;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

/// The check.
const CHECK: &str = "certificate";
/// A certificate that ends within this time should be renewed.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);
/// A time at which all certificates have ended: the end of the year 9999 (RFC 5280, 4.1.2.5).
const END: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(253_402_300_799));

/// Makes the handshake.
pub async fn check(url: &str, address: &str, stream: TcpStream, ca: Option<&Path>) -> Finding {
    let Some(ca) = ca else {
        return Finding::ok(url, CHECK, "by the authorities of the host: cluster.ca is not set");
    };
    let verifier = match verifier(ca) {
        Ok(verifier) => verifier,
        Err(why) => {
            let fix = "write the certificate of the authority to cluster.ca";
            return Finding::failed(url, CHECK, format!("{}: {why}", ca.display()), fix).blocking();
        }
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        let fix = "correct cluster.servers";
        return Finding::failed(url, CHECK, format!("{host:?} is no name"), fix).blocking();
    };
    match timeout(TIMEOUT, handshake(verifier, name, stream)).await {
        Ok(Ok(end)) => valid(url, end),
        Ok(Err(why)) => refused(url, &why).blocking(),
        Err(_) => {
            let fix = "see the log of the server";
            Finding::failed(url, CHECK, "no handshake in time", fix).blocking()
        }
    }
}

fn verifier(ca: &Path) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|why| why.to_string())? {
        let certificate = certificate.map_err(|why| why.to_string())?;
        roots.add(certificate).map_err(|why| why.to_string())?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.build().map_err(|why| why.to_string())
}

/// Makes a handshake, and returns when the certificate ends, if that is known.
async fn handshake(
    verifier: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
    stream: TcpStream,
) -> io::Result<Option<UnixTime>> {
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?.with_webpki_verifier(verifier.clone());
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let stream = connector.connect(name.clone(), stream).await?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let Some((own, others)) = chain.split_first() else { return Ok(None) };
    match verifier.verify_server_cert(own, others, &name, &[], END) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Ok(Some(not_after))
        }
        _ => Ok(None),
    }
}

fn valid(url: &str, end: Option<UnixTime>) -> Finding {
    let Some(end) = end else { return Finding::ok(url, CHECK, "valid") };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_secs(end.as_secs()).saturating_sub(now);
    let found = format!("valid until {}", date(end));
    match left < SOON {
        true => Finding::warning(url, CHECK, found, RENEW),
        false => Finding::ok(url, CHECK, found),
    }
}

/// How a certificate of `monitor cluster init` is renewed.
const RENEW: &str = "remove server.crt from the folder of the cluster, run monitor cluster init \
                     again, copy it to the server, and reload that";

fn refused(url: &str, why: &io::Error) -> Finding {
    let inner = why.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(error)) = inner else {
        let fix = "see the log of the server: it may have no tls {}";
        return Finding::failed(url, CHECK, why, fix);
    };
    let (found, fix) = match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            (format!("expired on {}", date(*not_after)), RENEW)
        }
        CertificateError::Expired => ("expired".to_owned(), RENEW),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("not valid yet".to_owned(), "compare the clocks of this node and of the server")
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let fix = "copy the certificate of the authority that signed it to cluster.ca";
            ("signed by an authority that cluster.ca does not have".to_owned(), fix)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let fix = "write the name of its certificate to cluster.servers";
            ("not made for this name".to_owned(), fix)
        }
        other => (format!("{other:?}"), "make a new one"),
    };
    Finding::failed(url, CHECK, found, fix)
}

/// The day of a time, by UTC.
fn date(at: UnixTime) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    match OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => at.date().to_string(),
        Err(_) => format!("second {}", at.as_secs()),
    }
}
