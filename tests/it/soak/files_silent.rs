//! Clients of the 9P files that connect and say nothing, or stop in the middle of TLS: all are
//! closed in time, and hold up no other.
//!
//! `cargo xtask soak files` runs it; without its variable the test is over at once, because it
//! waits for the deadlines of the service.

use super::random::given;
use crate::deadline::{deadline, until};
use crate::listener::files::{own, read};
use crate::listener::files_listen::{certificate, fixture};
use crate::served::Served;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The beginning of a record of the largest size, with a ClientHello that fills it.
const HELLO: [u8; 9] = [0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc];

/// Waits for the end of a stream; returns how long that took.
fn end_of(mut stream: impl Read) -> Duration {
    let began = Instant::now();
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            // What TLS sends before it closes.
            Ok(n) if n > 0 => {}
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("open after {:?}", began.elapsed())
            }
            _ => return began.elapsed(),
        }
    }
}

fn connect(at: &str) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    stream
}

/// A stream after the handshake of a node.
fn node(at: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(fixture("client.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(fixture("client.key")).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = config.with_client_auth_cert(chain, key).unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = connect(at);
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    StreamOwned::new(connection, stream)
}

/// Sends a byte at a time, so that the stream is never silent, until it is closed.
fn trickle(mut stream: TcpStream) -> JoinHandle<()> {
    spawn(move || {
        until(|| stream.write_all(&[0]).is_err().then_some(()));
    })
}

#[test]
fn clients_that_say_nothing_or_stall_in_a_handshake_are_closed() {
    if given("MONITOR_SOAK_ROUNDS").is_none() {
        return;
    }
    let listen = "tls = \"127.0.0.1:0\"\nlisten = \"127.0.0.1:0\"\n";
    let served = Served::with(&format!("[files]\n{listen}{}", certificate("server")));
    let mut it = own(&served);
    let address = read(&mut it, "addr");
    let (_, port) = address.trim().rsplit_once('!').unwrap();
    let tls = format!("127.0.0.1:{port}");
    let log = served.log();
    let plain = log.lines().find(|line| line.ends_with(", as none")).unwrap();
    let plain = plain.split_once("serving files on ").unwrap().1.trim_end_matches(", as none");
    let (silent, mut stalled, mut slow) = (connect(&tls), connect(&tls), connect(&tls));
    stalled.write_all(&HELLO).unwrap();
    slow.write_all(&HELLO).unwrap();
    let trickles = trickle(slow.try_clone().unwrap());
    let (unattached, of_node) = (connect(plain), node(&tls));
    // Others are served meanwhile.
    assert!(read(&mut it, "arch").starts_with("/Linux/"));
    let ends = [
        ("nothing for TLS", spawn(|| end_of(silent))),
        ("half a ClientHello", spawn(|| end_of(stalled))),
        ("one byte after another", spawn(|| end_of(slow))),
        ("nothing over TCP", spawn(|| end_of(unattached))),
        ("nothing after the handshake", spawn(|| end_of(of_node))),
    ];
    for (what, end) in ends {
        println!("soak: {what}: closed after {:.1?}", end.join().unwrap());
    }
    trickles.join().unwrap();
    let count = |kind: &str| served.status()["refused"][kind].as_u64().unwrap_or(0);
    until(|| (count("9P TLS handshake failed") == 3).then_some(()));
    until(|| (count("9P connection closed") == 2).then_some(()));
}
