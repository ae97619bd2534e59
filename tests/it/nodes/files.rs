//! The members of a cluster in `nodes/` of the 9P files.

use super::example_cluster::ExampleCluster;
use crate::deadline::until;
use crate::listener::{files::read, files_session::Files};
use monitor_ninep::client::{Client, ClientError};
use std::os::unix::net::UnixStream;

pub fn has_state(files: &mut Files, node: &str, state: &str) {
    let path = format!("nodes/{node}/state");
    until(|| (read(files, &path).trim() == state).then_some(()));
}

/// `nodes/` of n1: n2 is asked over TLS, n3 serves no files.
pub fn members_are_nodes_of_the_files(cluster: &ExampleCluster) -> Files {
    let attach = |node: &str| {
        let mut path = cluster.socket(node).into_os_string();
        path.push(".9p");
        let user = format!("#{}", rustix::process::geteuid().as_raw());
        Client::attach(UnixStream::connect(path).unwrap(), &user).unwrap()
    };
    let (mut it, mut other) = (attach("n1"), attach("n2"));
    let address = read(&mut other, "addr");
    let columns = |it: &mut Files, name: &str| {
        let state = read(it, "nodes/state");
        let line = state.lines().find(|it| it.split('\t').next() == Some(name))?;
        Some(line.split('\t').map(str::to_owned).collect::<Vec<_>>())
    };
    // It has answered: its sessions are known.
    let n2 = until(|| columns(&mut it, "n2").filter(|it| it[3] == "up" && it[4] != "-"));
    assert_eq!(n2[1..3], [read(&mut it, "arch").trim(), address.trim()]);
    let own = until(|| columns(&mut it, "n1").filter(|it| it[3] == "up" && it[4] != "-"));
    assert_eq!(own[2], read(&mut it, "addr").trim());
    assert_eq!(columns(&mut it, "n3").unwrap()[1..], ["-", "-", "up", "-", "-"]);
    other.write("state", b"in repair\n").unwrap();
    has_state(&mut it, "n2", "in_repair");
    other.open_to_write("state").unwrap();
    other.close().unwrap();
    assert_eq!(read(&mut it, "nodes/n2/mon/desc"), read(&mut other, "mon/desc"));
    let refused = |it: &mut Files, path: &str| match it.read_while(path, |_| true) {
        Err(ClientError::Refused(text)) => (text, read(it, "err")),
        odd => panic!("{odd:?}"),
    };
    let (text, why) = refused(&mut it, "nodes/n3/mon/desc");
    assert_eq!(text, "No such device or address");
    assert!(why.contains("no address of the files of n3 is known"), "{why}");
    let deleted = it.write("nodes/ctl", b"del n2\n");
    assert!(matches!(deleted, Err(ClientError::Refused(_))), "{deleted:?}");
    assert!(read(&mut it, "err").contains("n2 is a member of the cluster"));
    it
}
