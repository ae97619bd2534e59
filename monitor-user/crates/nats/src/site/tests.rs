//! What is written, kept and refused.

use super::{Rack, ServerAddress, SiteReport, SiteRequest, write_site};
use crate::credentials::NatsUser;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-site-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    fn write(&self, request: SiteRequest) -> Result<SiteReport, String> {
        let request = SiteRequest { folder: self.0.clone(), ..request };
        write_site(&request).map_err(|why| why.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It does not exist if nothing was written.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn servers(texts: &[&str]) -> Vec<ServerAddress> {
    texts.iter().map(|text| ServerAddress::parse(text).unwrap()).collect()
}

fn request(nodes: &[&str]) -> SiteRequest {
    SiteRequest { nodes: names(nodes), servers: servers(&["s1"]), ..SiteRequest::default() }
}

#[test]
fn nodes_are_added_and_what_exists_is_kept() {
    let folder = Folder::new();
    let first = folder.write(request(&["n1", "n2"])).unwrap();
    assert_eq!((first.name.as_str(), first.n_nodes), ("monitor", 2));
    let kept = ["nodes/n1/cluster.seed", "servers/s1/server.crt", "servers/s1/nats-server.conf"];
    let before = kept.map(|name| folder.text(name));
    let again = folder.write(SiteRequest { nodes: names(&["n2", "n3"]), ..Default::default() });
    let again = again.unwrap();
    assert_eq!((again.new_nodes, again.n_nodes), (names(&["n3"]), 3));
    assert_eq!(kept.map(|name| folder.text(name)), before);
    let accounts = folder.text("servers/s1/accounts.conf");
    for node in ["n1", "n2", "n3"] {
        assert!(accounts.contains(&format!("\"mon.cmd.{node}.*\"")), "{node}: {accounts}");
    }
    // The same request again writes nothing.
    let same = folder.write(SiteRequest { nodes: names(&["n3"]), ..Default::default() }).unwrap();
    assert_eq!(same.written, Vec::<PathBuf>::new());
}

#[test]
fn secrets_are_for_their_owner_and_may_leave_the_folder() {
    let folder = Folder::new();
    folder.write(request(&["n1"])).unwrap();
    for secret in ["nodes/n1/cluster.seed", "servers/s1/server.key", "ca/ca.key"] {
        let mode = folder.0.join(secret).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    let seed = folder.0.join("nodes/n1/cluster.seed");
    assert!(matches!(NatsUser::read(&seed), Ok(NatsUser::Seed(_))));
    let before = folder.text("servers/s1/accounts.conf");
    std::fs::remove_file(seed).unwrap();
    folder.write(SiteRequest { nodes: names(&["n1"]), ..Default::default() }).unwrap();
    assert_eq!(folder.text("servers/s1/accounts.conf"), before);
}

#[test]
fn only_those_that_serve_the_cluster_remove_dead_members() {
    let folder = Folder::new();
    let asked = SiteRequest { gateways: names(&["web"]), ..request(&["n1", "n2", "n3", "n4"]) };
    folder.write(asked).unwrap();
    for (node, removes) in [("n1", true), ("n3", true), ("n4", false), ("web", false)] {
        let config = folder.text(&format!("nodes/{node}/monitor.toml"));
        assert!(config.contains(&format!("removes_dead = {removes}\n")), "{config}");
        assert!(config.contains("servers = [\"tls://s1:4222\"]\n"), "{config}");
    }
    let accounts = folder.text("servers/s1/accounts.conf");
    let users: Vec<&str> = accounts.split("# ").collect();
    let user = |name: &str| *users.iter().find(|it| it.starts_with(&format!("{name}\n"))).unwrap();
    assert!(user("n1").contains("mon.cmd.*.removed") && !user("n4").contains("mon.cmd.*.removed"));
    assert!(user("web").contains("\"mon.s.*\"") && !user("n4").contains("\"mon.s.*\""));
}

#[test]
fn three_servers_know_each_other_and_an_even_number_is_refused() {
    let folder = Folder::new();
    let hosts = servers(&["a", "b:4333", "10.0.0.3"]);
    folder.write(SiteRequest { servers: hosts, ..request(&["n1"]) }).unwrap();
    let config = folder.text("servers/10.0.0.3/nats-server.conf");
    for part in ["listen: \"10.0.0.3:4222\"", "\"nats://a:6222\"", "\"nats://b:6333\""] {
        assert!(config.contains(part), "{part}: {config}");
    }
    assert!(folder.text("servers/b/nats-server.conf").contains("listen: \"0.0.0.0:4333\""));
    let two = SiteRequest { servers: servers(&["a", "b"]), ..request(&["n1"]) };
    let why = Folder::new().write(two).expect_err("two servers");
    assert!(why.starts_with("an odd number of servers is needed"), "{why}");
}

#[test]
fn another_authority_gets_requests_to_sign() {
    let (folder, other) = (Folder::new(), Folder::new());
    other.write(request(&["n1"])).unwrap();
    let ca = Some(other.0.join("ca/ca.crt"));
    let report = folder.write(SiteRequest { ca, ..request(&["n1"]) }).unwrap();
    assert_eq!(report.to_sign, [Path::new("servers/s1/server.csr")]);
    assert!(folder.text("servers/s1/server.csr").starts_with("-----BEGIN CERTIFICATE REQUEST"));
    assert_eq!(folder.text("nodes/n1/cluster-ca.crt"), other.text("ca/ca.crt"));
    assert!(
        !folder.0.join("ca/ca.key").exists() && !folder.0.join("servers/s1/server.crt").exists()
    );
}

#[test]
fn what_contradicts_the_folder_is_refused() {
    let folder = Folder::new();
    folder.write(request(&["n1"])).unwrap();
    let other = SiteRequest { servers: servers(&["s2"]), ..request(&["n2"]) };
    let why = folder.write(other).expect_err("other servers");
    assert!(
        why.starts_with("--servers: the folder has a cluster that was made otherwise"),
        "{why}"
    );
    assert!(!folder.0.join("nodes/n2").exists());
    for (name, want) in [("a b", "the name of a cluster"), ("", "the name of a cluster")] {
        let asked = SiteRequest { name: Some(name.to_owned()), ..request(&["n1"]) };
        let why = Folder::new().write(asked).expect_err("no name");
        assert!(why.starts_with(want), "{why}");
    }
    let why = Folder::new().write(request(&[".."])).expect_err("no node");
    assert_eq!(why, "\"..\" is no name of a node");
}

#[test]
fn an_address_is_a_host_with_a_port() {
    let text = |text: &str| ServerAddress::parse(text).map(|it| it.to_string());
    assert_eq!(text("a.b-c"), Ok("a.b-c:4222".to_owned()));
    assert_eq!(text("127.0.0.1:42"), Ok("127.0.0.1:42".to_owned()));
    assert_eq!(text("[::1]:42"), Ok("[::1]:42".to_owned()));
    assert_eq!(text("::1"), Ok("[::1]:4222".to_owned()));
    for wrong in ["", ":1", "a:", "a:0", "a:65000", "a b", "nats://a", "-a", "a/b"] {
        assert!(text(wrong).is_err(), "{wrong}");
    }
}

fn racks(text: &str) -> Vec<Rack> {
    Rack::parse(text).unwrap()
}

#[test]
fn nodes_of_a_rack_connect_to_its_server_which_may_do_what_they_may() {
    let folder = Folder::new();
    let asked = || SiteRequest { racks: racks("r1=m[1-2]"), ..request(&["n1", "n2"]) };
    let report = folder.write(asked()).unwrap();
    assert_eq!((report.n_nodes, report.servers), (4, vec!["s1".into(), "r1".into()]));
    let config = folder.text("nodes/m1/monitor.toml");
    assert!(config.contains("servers = [\"tls://r1:4222\"]\n"), "{config}");
    assert!(config.contains("removes_dead = false\n"), "{config}");
    let hub = folder.text("servers/s1/nats-server.conf");
    assert!(hub.contains("listen: \"0.0.0.0:7422\"") && hub.contains("jetstream {"), "{hub}");
    let leaf = folder.text("servers/r1/nats-server.conf");
    assert!(leaf.contains("\"tls://s1:7422\"") && !leaf.contains("jetstream {"), "{leaf}");
    let accounts = folder.text("servers/s1/accounts.conf");
    let user = "user: \"CN=r1 of cluster monitor\", allowed_connection_types: [\"LEAFNODE\"]";
    assert!(accounts.contains(user), "{accounts}");
    for (node, is_at_rack) in [("n1", false), ("m1", true)] {
        let own = format!("# {node}\n");
        assert_eq!(accounts.contains(&own), !is_at_rack, "{accounts}");
        assert_eq!(folder.text("servers/r1/accounts.conf").contains(&own), is_at_rack);
    }
    // More nodes, and another rack.
    let more = SiteRequest { racks: racks("r[1-2]=m[3-4]"), ..SiteRequest::default() };
    assert_eq!(folder.write(more).unwrap().new_nodes, names(&["m3", "m4"]));
    assert!(folder.text("servers/r1/accounts.conf").contains("\"mon.hb.m3\""));
    assert!(
        folder.text("servers/s1/accounts.conf").contains("\"$SYS.ACCOUNT.RACK-r2.DISCONNECT\"")
    );
    let refused = |text: &str| {
        let more = SiteRequest { racks: racks(text), ..SiteRequest::default() };
        folder.write(more).expect_err("it contradicts the folder")
    };
    assert_eq!(refused("r1=n2"), "--rack: n2 is a node of the servers already");
    assert_eq!(refused("r2=m1"), "--rack: m1 is in two racks");
    assert_eq!(refused("s1=m9"), "--rack: s1 has a server of the cluster already");
    assert_eq!(refused("r1:42=m9"), "--rack: r1 has a rack at another port");
    let without = Folder::new();
    without.write(request(&["n1"])).unwrap();
    let more = SiteRequest { racks: racks("r1=m1"), ..SiteRequest::default() };
    let why = without.write(more).expect_err("no port for racks");
    assert!(why.contains("were made without racks"), "{why}");
}
