//! A program is copied to a session on each of many nodes over links of 100 Mbit/s: over a tree of
//! four, and to each of them from the source.
//!
//! In: the number of nodes. Out: wall time and bytes sent of both, printed. Each node is a service
//! in a network namespace of its own, whose link has a token bucket in each direction. Nodes have
//! certificates of an authority that the test makes.
//! `cargo xtask soak copies` runs it; without its variable the test is over at once, as it needs
//! minutes and its figures are those of an idle machine.

use super::random::given;
use crate::deadline::until;
use crate::root::privilege::able;
use crate::served::{Folder, monitor, write};
use monitor_ninep::client::{Client, ClientError};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Bytes of the program.
const PROGRAM: u64 = 20 << 20;
/// Nodes that are not there.
const DEAD: u8 = 3;
/// The rate of links, and bytes that they may pass at once.
const RATE: [&str; 6] = ["rate", "100mbit", "burst", "64kb", "latency", "50ms"];
const BRIDGE: &str = "mon-soak";
const PORT: u16 = 5641;

type Files = Client<UnixStream>;

/// A node; the first one is the source.
struct Node {
    number: u8,
    service: Child,
    files: Files,
}

struct Network {
    nodes: Vec<Node>,
    folder: Folder,
}

/// What one distribution took.
struct Figures {
    wall: Duration,
    /// Bytes sent by each node, the source first.
    sent: Vec<u64>,
}

#[track_caller]
fn run(command: &str) {
    let mut words = command.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

/// An authority, and one certificate for all nodes.
fn make_certificates(folder: &Path, nodes: u8) {
    let at = |name: &str| folder.join(name).display().to_string();
    let names: Vec<String> = (1..=nodes).map(|it| format!("IP:{}", address(it))).collect();
    write(&folder.join("san"), &format!("subjectAltName={}\n", names.join(",")));
    let ec = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    run(&format!(
        "openssl req -x509 {ec} -subj /CN=soak -keyout {} -out {}",
        at("ca.key"),
        at("ca.pem")
    ));
    run(&format!("openssl req {ec} -subj /CN=node -keyout {} -out {}", at("key"), at("csr")));
    run(&format!(
        "openssl x509 -req -in {} -CA {} -CAkey {} -CAcreateserial -days 2 -extfile {} -out {}",
        at("csr"),
        at("ca.pem"),
        at("ca.key"),
        at("san"),
        at("pem")
    ));
}

impl Network {
    fn new(count: u8) -> Self {
        let folder = Folder::new();
        make_certificates(folder.path(), count + DEAD);
        let mut it = Self { nodes: Vec::new(), folder };
        it.remove_links();
        run(&format!("ip link add {BRIDGE} type bridge"));
        run(&format!("ip link set {BRIDGE} up"));
        for number in 1..=count {
            let node = it.start(number);
            it.nodes.push(node);
        }
        it
    }

    fn start(&self, number: u8) -> Node {
        let (space, link) = (format!("mon-soak-{number}"), format!("mons{number}"));
        run(&format!("ip netns add {space}"));
        run(&format!("ip link add {link} type veth peer name eth0 netns {space}"));
        run(&format!("ip link set {link} master {BRIDGE} up"));
        run(&format!("ip -n {space} link set lo up"));
        run(&format!("ip -n {space} addr add {}/24 dev eth0", address(number)));
        run(&format!("ip -n {space} link set eth0 up"));
        let bucket = RATE.join(" ");
        run(&format!("tc -n {space} qdisc add dev eth0 root tbf {bucket}"));
        run(&format!("tc qdisc add dev {link} root tbf {bucket}"));
        let at = |name: &str| self.folder.join(name);
        let config = at(&format!("{number}.toml"));
        let [pem, key, authority] = ["pem", "key", "ca.pem"].map(at);
        let listen = format!("{}:{PORT}", address(number));
        write(
            &config,
            &format!(
                "[files]\nexecute = [\"root\"]\ntls = {listen:?}\ncertificate = {pem:?}\n\
                 key = {key:?}\nauthority = {authority:?}\n"
            ),
        );
        std::fs::create_dir_all(at("run")).unwrap();
        let socket = at("run").join(number.to_string());
        let mut program = Command::new("ip");
        program.args(["netns", "exec", &space]).arg(monitor().get_program());
        program.args(["serve", "--backend", "test", "--socket"]).arg(&socket);
        program.arg("--config").arg(&config);
        program.stderr(std::fs::File::create(at(&format!("{number}.log"))).unwrap());
        let service = program.spawn().unwrap();
        let mut path = socket.into_os_string();
        path.push(".9p");
        let stream = until(|| UnixStream::connect(&path).ok());
        Node { number, service, files: Client::attach(stream, "#0").unwrap() }
    }

    /// Removes what this or a killed test has made.
    fn remove_links(&self) {
        let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for line in listed.lines().filter(|it| it.starts_with("mon-soak-")) {
            let space = line.split(' ').next().unwrap();
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
        let _ = Command::new("ip").args(["link", "del", BRIDGE]).output();
    }

    /// Bytes that each node has sent since its start.
    fn sent(&self) -> Vec<u64> {
        let sent = |node: &Node| {
            let file = format!("/sys/class/net/mons{}/statistics/rx_bytes", node.number);
            std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
        };
        self.nodes.iter().map(sent).collect()
    }

    /// Copies a session of the source to a new one of each other node, and to dead ones.
    fn distribute(&mut self, width: usize, dead: &[u8]) -> (Figures, String) {
        let mut list: Vec<String> = Vec::new();
        let mut sessions = Vec::new();
        for node in &mut self.nodes[1..] {
            let session = opened(&mut node.files);
            let key = read(&mut node.files, &format!("{session}/key")).unwrap();
            list.push(format!("tls!{}!{PORT}/{session}/{key}", address(node.number)));
            sessions.push(session);
        }
        // Spread, so that one of them is the head of a part.
        for (at, number) in dead.iter().enumerate() {
            let key = "0".repeat(32);
            list.insert(at * 7, format!("tls!{}!{PORT}/1/{key}", address(*number)));
        }
        let before = self.sent();
        let source = &mut self.nodes[0].files;
        let began = Instant::now();
        let line = format!("clone {width} {}\n", list.join(","));
        let done = source.write("0/ctl", line.as_bytes());
        let wall = began.elapsed();
        let lines = read(source, "0/err").unwrap();
        assert_eq!(done.is_ok(), dead.is_empty(), "{lines}");
        let sent = self.sent().iter().zip(before).map(|(now, before)| now - before).collect();
        for (node, session) in self.nodes[1..].iter_mut().zip(sessions) {
            // A file has its SHA-256 when it is there.
            let stat = node.files.stat(&format!("{session}/fs/xc")).unwrap();
            assert_eq!(stat.length, PROGRAM, "node {}: {lines}", node.number);
            node.files.write(&format!("{session}/ctl"), b"wipe\n").unwrap();
        }
        (Figures { wall, sent }, lines)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.service.kill();
            let _ = node.service.wait();
        }
        self.remove_links();
    }
}

fn read(files: &mut Files, path: &str) -> Result<String, ClientError> {
    let mut text = Vec::new();
    files.read_while(path, |part| {
        text.extend_from_slice(part);
        true
    })?;
    Ok(String::from_utf8(text).unwrap())
}

/// A session that stays without an open file.
fn opened(files: &mut Files) -> String {
    let session = read(files, "clone").unwrap();
    files.write(&format!("{session}/ctl"), b"type persistent\n").unwrap();
    session
}

impl Figures {
    /// Programs that a node has sent.
    fn programs(bytes: u64) -> f64 {
        bytes as f64 / PROGRAM as f64
    }

    fn print(&self, name: &str) {
        let most = self.sent[1..].iter().max().copied().unwrap_or(0);
        println!(
            "soak: {name}: {:.2?}; the source sends {:.2} programs, a peer at most {:.2}",
            self.wall,
            Self::programs(self.sent[0]),
            Self::programs(most)
        );
    }
}

#[test]
fn root_a_tree_of_four_takes_less_than_copies_from_the_source() {
    let name = "root_a_tree_of_four_takes_less_than_copies_from_the_source";
    let Some(sessions) = given("MONITOR_SOAK_NODES") else { return };
    if !able(name) {
        return;
    }
    let sessions = u8::try_from(sessions).unwrap().min(200);
    let mut network = Network::new(sessions + 1);
    let source = &mut network.nodes[0].files;
    assert_eq!(opened(source), "0");
    source.open_to_write("0/fs/xc").unwrap();
    let part: Vec<u8> =
        (0..1_u32 << 20).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for _ in 0..PROGRAM >> 20 {
        source.write_on(&part).unwrap();
    }
    source.close().unwrap();
    println!("soak: {sessions} sessions, a program of {} MiB, links of 100 Mbit/s", PROGRAM >> 20);
    let (tree, _) = network.distribute(4, &[]);
    tree.print("tree of 4");
    let dead: Vec<u8> = (1..=DEAD).map(|it| sessions + 1 + it).collect();
    let (beside, lines) = network.distribute(4, &dead);
    beside.print("tree of 4 with 3 dead targets");
    let failed: Vec<&str> =
        lines.lines().filter(|it| it.starts_with("tls!") && it.contains(" failed: ")).collect();
    assert_eq!(failed.len(), usize::from(DEAD), "{lines}");
    for (line, number) in failed.iter().zip(&dead) {
        assert!(line.starts_with(&format!("tls!{}!", address(*number))), "{line}");
    }
    let (flat, _) = network.distribute(0, &[]);
    flat.print("from the source");
    let ratio = tree.wall.as_secs_f64() / flat.wall.as_secs_f64();
    println!("soak: the tree takes {ratio:.2} of the time");
    assert!(Figures::programs(tree.sent[0]) <= 4.1);
    assert!(tree.sent.iter().all(|it| Figures::programs(*it) <= 16.0));
    assert!(ratio <= 0.4);
}
