//! The listener with TLS: full access with a client certificate of its authority, anonymous access
//! without one.

use super::get::Answer;
use crate::deadline::deadline;
use crate::served::Served;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/tls").join(name)
}

fn served() -> (Served, SocketAddr) {
    let [certificate, key, clients] = ["server.pem", "server.key", "ca.pem"].map(file);
    let config = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n\
         clients = {clients:?}\n[policy]\nobserve-own = [0]\n"
    );
    let served = Served::with(&config);
    let address = served.status()["http"]["address"].as_str().unwrap().to_owned();
    let address = address.strip_prefix("https://").unwrap().parse().unwrap();
    (served, address)
}

/// Gets the metrics, with a certificate or without.
fn get(address: SocketAddr, certificate: Option<(&str, &str)>) -> std::io::Result<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match certificate {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(file(certificate)).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file(key)).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(deadline()))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut all = Vec::new();
    // A missing close_notify is accepted.
    let _ = stream.read_to_end(&mut all);
    if all.is_empty() {
        return Err(std::io::ErrorKind::ConnectionAborted.into());
    }
    Ok(Answer::parse(&all))
}

#[test]
fn a_client_certificate_gives_full_access() {
    let (served, address) = served();
    let authenticated = get(address, Some(("client.pem", "client.key"))).unwrap();
    assert!(
        authenticated.status == 200
            && authenticated.text().contains("\nmonitor_group_cpu_seconds_total{")
    );
    // The policy of this test denies anonymous access.
    let anonymous = get(address, None).unwrap();
    assert_eq!(anonymous.status, 503, "{}", anonymous.text());
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    let refused = crate::deadline::until(|| {
        served.status()["http"]["refused"]["TLS handshake failed"].as_u64()
    });
    assert_eq!(refused, 1);
}
