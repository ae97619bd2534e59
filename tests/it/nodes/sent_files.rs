//! Files that go from node to node beside the bus.

use super::example_cluster::ExampleCluster;
use crate::listener::{files::read, files_listen};
use crate::served::monitor;
use crate::socket_session::SocketSession;
use monitor_ninep::client::Client;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

/// The SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn received(cluster: &ExampleCluster, node: &str, name: &str) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw().to_string();
    cluster.folder.join("nodes").join(node).join("received").join(uid).join(name)
}

/// n1 may control others; n2 takes files, n3 serves none.
pub fn a_file_goes_from_node_to_node(cluster: &ExampleCluster) {
    let source = cluster.folder.join("program");
    // Several parts, and one that is not whole.
    let content: Vec<u8> =
        (0..2_500_000_u32).flat_map(|it| it.to_le_bytes()).take(9_999_999).collect();
    std::fs::write(&source, &content).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = source.to_str().unwrap();
    let there = received(cluster, "n2", "program");
    let printed = format!("n2: {}\n", there.display());
    cluster.prints(("n1", &["send", path, "--nodes", "n2"]), 0, &printed);
    assert!(std::fs::read(&there).unwrap() == content);
    assert_eq!(std::fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o700);

    let send = |nodes: &'static str| ["send", path, "--name", "other", "--nodes", nodes];
    cluster.prints(("n1", &send("n[2-4]")), 4, "n3: refused: this node takes no files of others");
    cluster.prints(("n1", &send("n[2-4]")), 4, "n4: refused: the node is not a member");
    cluster.prints(("n2", &send("n1")), 5, "n1: refused: receive_file: users of other nodes may");
    cluster.prints(("n3", &send("n1")), 1, "this node serves no files: see files.tls");
    let hidden = ["send", path, "--name", "../x", "--nodes", "n2"];
    cluster.prints(("n1", &hidden), 1, "is no name of a received file");
    cluster.prints(("n1", &["send", "/no-such", "--nodes", "n2"]), 6, "/no-such: No such file");
    cluster.prints(("n1", &["send", "/dev/null", "--nodes", "n2"]), 2, "is no regular file");
}

/// What is announced is what is taken, from a client with a certificate and the key.
pub fn other_bytes_than_those_announced_are_refused(cluster: &ExampleCluster) {
    let mut tool = SocketSession::connect(&cluster.socket("n2"));
    let mut announce = |name: &str, bytes: u64| {
        let params = json!({ "name": name, "bytes": bytes, "sha256": EMPTY });
        tool.call("receive_file", &params)
    };
    let key_of = |reply: &Value| reply["result"]["key"].as_str().unwrap().to_owned();
    let large = announce("large", 1 << 40);
    let why = large["error"]["message"].as_str().unwrap();
    assert!(why.contains("more than the limit 1073741824"), "{why}");
    let reply = announce("fake", 3);
    let address = reply["result"]["address"].as_str().unwrap();
    let write = |content: &[u8]| {
        let mut it = monitor();
        it.args(["files", "write", "upload", "--at", address]);
        for (option, file) in [("certificate", "server.pem"), ("key", "server.key")] {
            it.arg(format!("--{option}")).arg(files_listen::fixture(file));
        }
        it.arg("--authority").arg(files_listen::fixture("ca.pem"));
        let mut child = it.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(content).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let refused = |content: &[u8], want: &str| {
        let (is_written, why) = write(content);
        assert!(!is_written && why.contains(want), "{why}");
    };
    refused(&[key_of(&reply).as_bytes(), b"abc"].concat(), "another SHA-256 than was announced");
    // A key is used up, also by what was refused.
    refused(&[key_of(&reply).as_bytes(), b"abc"].concat(), "no file was announced with this key");
    let more = key_of(&announce("fake", 3));
    refused(&[more.as_bytes(), b"abcd"].concat(), "more than the 3 bytes that were announced");
    assert!(!received(cluster, "n2", "fake").exists());
    let partial = received(cluster, "n2", "fake").parent().unwrap().with_file_name(".partial");
    assert_eq!(std::fs::read_dir(partial).unwrap().count(), 0);
    let empty = key_of(&announce("empty", 0));
    assert_eq!(write(empty.as_bytes()), (true, String::new()));
    assert_eq!(std::fs::read(received(cluster, "n2", "empty")).unwrap(), b"");

    // Without a certificate there is no upload, whatever the key.
    let mut path = cluster.socket("n2").into_os_string();
    path.push(".9p");
    let user = format!("#{}", rustix::process::geteuid().as_raw());
    let stream = UnixStream::connect(path).unwrap();
    let mut local = Client::attach(stream, &user).unwrap();
    assert!(local.write("upload", key_of(&announce("fake", 0)).as_bytes()).is_err());
    assert!(read(&mut local, "err").contains("come over TLS"));
}
