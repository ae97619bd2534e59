//! The files over TCP and TLS: as which user, to which clients, and what is refused.

use super::files::{attach, output, own, path, read};
use crate::deadline::{deadline, until};
use crate::served::{Folder, Served, monitor, write};
use monitor_ninep::client::{Client, ClientError};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The lines of a configuration for the certificate of a node.
pub fn certificate(of: &str) -> String {
    let (pem, key) = (fixture(&format!("{of}.pem")), fixture(&format!("{of}.key")));
    format!("certificate = {pem:?}\nkey = {key:?}\nauthority = {:?}\n", fixture("ca.pem"))
}

/// A file of the certificates of tests.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/tls").join(name)
}

/// What a service prints that refuses its configuration.
fn refusal(config: &str) -> String {
    let folder = Folder::new();
    write(&folder.join("monitor.toml"), config);
    let mut it = monitor();
    it.args(["serve", "--backend", "test", "--socket"]).arg(folder.join("monitor.sock"));
    it.arg("--config").arg(folder.join("monitor.toml")).stdout(Stdio::null());
    let done = it.output().unwrap();
    assert!(!done.status.success());
    String::from_utf8(done.stderr).unwrap()
}

/// The address that the log of a service names.
fn address(served: &Served, kind: &str) -> String {
    until(|| {
        let log = served.log();
        let line = log.lines().find(|it| it.contains("serving files on") && it.ends_with(kind))?;
        let (_, address) = line.split_once("serving files on ")?;
        address.strip_suffix(kind).map(str::to_owned)
    })
}

#[test]
fn a_listener_beyond_this_machine_needs_certificates() {
    let why = refusal("[files]\nlisten = \"0.0.0.0:0\"\n");
    assert!(why.contains("files.listen 0.0.0.0:0 can be reached from other machines"), "{why}");
    let why = refusal("[files]\ntls = \"127.0.0.1:0\"\n");
    assert!(
        why.contains("files.tls 127.0.0.1:0 needs certificates: set files.certificate"),
        "{why}"
    );
    let why = refusal("[files]\ntls = \"127.0.0.1:0\"\ncertificate = \"/a\"\nkey = \"/b\"\n");
    assert!(why.contains("belong together"), "{why}");
    let three = "certificate = \"/none/a\"\nkey = \"/none/b\"\nauthority = \"/none/c\"\n";
    let why = refusal(&format!("[files]\ntls = \"127.0.0.1:0\"\n{three}"));
    assert!(why.contains("/none/c: "), "{why}");
}

#[test]
fn over_tcp_a_client_is_none_and_changes_nothing() {
    let config = "[files]\nlisten = \"127.0.0.1:0\"\nexecute = [\"*\"]\n";
    let served = Served::with(config);
    let at = address(&served, ", as none");
    let connect = |user: &str| Client::attach(TcpStream::connect(&at).unwrap(), user);
    for user in ["root", "#0", "daemon"] {
        let refused = connect(user).err().unwrap();
        assert_eq!(refused.to_string(), "Permission denied", "{user}");
    }
    let mut it = connect("").unwrap();
    let text = |it: &mut Client<TcpStream>, path: &str| {
        let mut text = Vec::new();
        it.read_while(path, |part| {
            text.extend_from_slice(part);
            true
        })
        .map(|()| String::from_utf8(text).unwrap())
    };
    let whoami = text(&mut it, "whoami").unwrap();
    assert!(whoami.contains("(user none)") && whoami.contains("(auth none)"), "{whoami}");
    assert_eq!(text(&mut it, "arch").unwrap(), read(&mut own(&served), "arch"));
    for path in ["state", "env", "ctl", "mon/ctl"] {
        assert!(matches!(it.write(path, b"x"), Err(ClientError::Refused(_))), "{path}");
    }
    assert!(text(&mut it, "clone").is_err());
    // The same by a command, which needs no user there.
    let tcp = format!("tcp!{}", at.replace(':', "!"));
    let mut command = monitor();
    command.args(["files", "cat", "whoami", "--at", &tcp]);
    assert_eq!(output(command), whoami);
    // What is no 9P ends the connection.
    let mut http = TcpStream::connect(&at).unwrap();
    http.set_read_timeout(Some(deadline())).unwrap();
    http.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _reset = http.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let held: Vec<_> = (0..70).map(|_| connect("none")).collect();
    assert!(held.iter().any(|it| it.as_ref().is_err_and(|it| it.to_string() == "Too many users")));
    let refused = &served.status()["refused"];
    assert!(refused["9P connections of a user"].as_u64() >= Some(6), "{refused}");
}

/// A connection with TLS 1.3 and no certificate of the client, which is refused.
fn without_certificate(at: &str) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    assert!(Client::attach(StreamOwned::new(connection, stream), "none").is_err());
}

#[test]
fn a_node_with_a_certificate_is_followed_over_tls_and_no_other_gets_in() {
    let tls = "tls = \"127.0.0.1:0\"\n";
    let one = Served::with(&format!("[files]\n{tls}{}", certificate("server")));
    let at = read(&mut own(&one), "addr");
    let at = at.trim();
    assert!(at.starts_with("tls!127.0.0.1!"), "{at}");
    write_state(&one, "ready");
    let port = at.rsplit('!').next().unwrap();
    let names = format!("nodes = [\"one={at}\", \"odd=tls!127.0.0.2!{port}\"]\n");
    let two = Served::with(&format!("[files]\n{names}{}", certificate("client")));
    let mut it = own(&two);
    until(|| (read(&mut it, "nodes/one/state") == "ready\n").then_some(()));
    assert_eq!(read(&mut it, "nodes/one/mon/desc"), read(&mut own(&one), "mon/desc"));
    // The certificate is not for that host.
    let odd = "down(connect_failed)\n";
    until(|| (read(&mut it, "nodes/odd/state") == odd).then_some(()));
    // Without a certificate the address is not reached.
    let three = Served::with(&format!("[files]\nnodes = [\"one={at}\"]\n"));
    let mut it = own(&three);
    until(|| (read(&mut it, "nodes/one/state") == odd).then_some(()));
    without_certificate(&format!("127.0.0.1:{port}"));
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    plain.write_all(b"\x13\0\0\0\x64\xff\xff\0\x20\0\0\x06\x009P2000").unwrap();
    until(|| {
        (one.status()["refused"]["9P TLS handshake failed"].as_u64() >= Some(2)).then_some(())
    });
    // Names of users mean nothing there, and sessions are not opened.
    assert!(path(&one).exists() && attach(&one, "none").stat("arch").is_ok());
}

/// Options of a command for the certificate of a node.
fn options(of: &str) -> Vec<String> {
    let file = |name: &str| fixture(name).display().to_string();
    let pairs = [
        ["--certificate".to_owned(), file(&format!("{of}.pem"))],
        ["--key".to_owned(), file(&format!("{of}.key"))],
        ["--authority".to_owned(), file("ca.pem")],
    ];
    pairs.concat()
}

#[test]
fn commands_read_files_over_tls_with_a_certificate_of_a_node() {
    let tls = "[files]\ntls = \"127.0.0.1:0\"\n";
    let served = Served::with(&format!("{tls}{}", certificate("server")));
    let at = read(&mut own(&served), "addr");
    let at = at.trim();
    let command = |words: &[&str], more: &[String]| {
        let mut it = monitor();
        it.arg("files").args(words).args(["--at", at]).args(more).stdin(Stdio::null());
        it
    };
    let failed = |mut it: Command| {
        let done = it.output().unwrap();
        assert!(!done.status.success(), "{it:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let client = options("client");
    let whoami = output(command(&["cat", "whoami"], &client));
    assert!(whoami.contains("(user none)") && whoami.contains("(auth tls)"), "{whoami}");
    assert!(output(command(&["ls", "mon"], &client)).contains("pull\n"));
    let why = failed(command(&["write", "state"], &client));
    assert!(why.contains("state: Permission denied: user none may not write"), "{why}");
    let why = failed(command(&["cat", "arch", "--user", "root"], &client));
    assert!(why.contains("cannot attach as root: Permission denied"), "{why}");
    // That of a configuration.
    let folder = Folder::new();
    let config = folder.join("monitor.toml");
    write(&config, &format!("[files]\n{}", certificate("client")));
    let named = ["--config".to_owned(), config.display().to_string()];
    assert!(output(command(&["cat", "arch"], &named)).starts_with("/Linux/"));
    // Without one, with one that is not of the authority, and with a file that is not there.
    write(&config, "");
    let why = failed(command(&["cat", "arch"], &named));
    assert!(why.contains("name --certificate, --key and --authority, or a configuration"), "{why}");
    let why = failed(command(&["cat", "arch"], &options("self_signed")));
    assert!(why.contains(&format!("{at} does not accept the certificate of this node")), "{why}");
    let mut absent = client.clone();
    absent[1] = "/none/n.pem".to_owned();
    let why = failed(command(&["cat", "arch"], &absent));
    assert!(why.contains(&format!("cannot connect to {at}: /none/n.pem: ")), "{why}");
    // Its certificate is not that of another host.
    let (_, port) = at.rsplit_once('!').unwrap();
    let other = format!("tls!127.0.0.2!{port}");
    let mut it = monitor();
    it.args(["files", "cat", "arch", "--at", &other]).args(&client);
    let why = failed(it);
    assert!(why.contains(&format!("cannot connect to {other}: ")), "{why}");
}

fn write_state(served: &Served, state: &str) {
    own(served).write("state", state.as_bytes()).unwrap();
}
