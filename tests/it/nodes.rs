//! A cluster of three by the script of docs/examples, with TLS and the keys of `cluster init`: a
//! real server, a node that is killed, a server that goes and comes back.
//!
//! What a cluster shows is awaited, not expected at once: on a machine without time for it a node
//! is removed as if it were dead, and joins again.

use crate::client::tool::examples;
use crate::deadline::{deadline, until};
#[cfg(feature = "tls")]
use crate::listener::{files::read, files_listen, files_session::Files};
use crate::root::privilege::skip;
use crate::served::{Folder, monitor};
use crate::socket_session::SocketSession;
use crate::web::browser::Browser;
use crate::web::get::Answer;
use crate::web::metrics::promtool;
#[cfg(feature = "tls")]
use monitor_ninep::client::{Client, ClientError};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
#[cfg(feature = "tls")]
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// A request whose reply is the same on all nodes.
const REQUEST: &str = "1 [0] number_of_nodes()";

/// The port of the gateway.
const HTTP_PORT: u16 = 19464;

/// A cluster that ends with the test.
struct ExampleCluster {
    folder: Folder,
    /// An address of loopback that no other process has: its ports are all free, and a client that
    /// waits for the server cannot take its port.
    host: String,
}

impl ExampleCluster {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = format!("127.{}.{middle}.{low}", 1 + (number + u32::from(high)) % 250);
        let cluster = Self { folder: Folder::new(), host };
        cluster.script(&["start"]);
        cluster
    }

    /// Runs the script, with the folder as second argument.
    #[track_caller]
    fn script(&self, words: &[&str]) {
        self.script_with("test", words);
    }

    /// The same; what it starts reads processes with this backend.
    #[track_caller]
    fn script_with(&self, backend: &str, words: &[&str]) {
        let log = std::fs::File::create(self.folder.join("script.log")).unwrap();
        let mut script = Command::new(examples().join("cluster.sh"));
        script.arg(words[0]).arg(self.folder.path()).args(&words[1..]);
        script.env("MONITOR", env!("CARGO_BIN_EXE_monitor")).env("BACKEND", backend);
        #[cfg(feature = "tls")]
        script.env("FILES_n1", files_config("server")).env("FILES_n2", files_config("client"));
        script.env("HOST", &self.host).env("DEADLINE", deadline().as_secs().to_string());
        for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
            script.env_remove(variable);
        }
        let output = log.try_clone().unwrap();
        let status = script.stdin(Stdio::null()).stdout(output).stderr(log).status().unwrap();
        assert!(status.success(), "{words:?}: {}", self.logs());
    }

    fn logs(&self) -> String {
        let names = ["script.log", "server.log", "nodes/n1/log", "nodes/n2/log", "nodes/n3/log"];
        let log = |name: &&str| {
            let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            format!("{name}:\n{text}\n")
        };
        names.iter().map(log).collect()
    }

    fn socket(&self, node: &str) -> PathBuf {
        self.folder.join("nodes").join(node).join("monitor.sock")
    }

    /// The output of a command of the program that asks a node.
    fn command(&self, node: &str, words: &[&str]) -> Output {
        monitor().args(words).env("MONITOR_SOCKET", self.socket(node)).output().unwrap()
    }

    /// The command that checks the links of a node.
    fn doctor(&self, node: &str) -> [String; 4] {
        let config = self.folder.join("nodes").join(node).join("monitor.toml");
        let words = ["cluster", "doctor", "--config"].map(str::to_owned);
        let [first, second, third] = words;
        [first, second, third, config.display().to_string()]
    }

    /// Waits for a command that ends with this code and prints this text.
    #[track_caller]
    fn prints(&self, (node, words): (&str, &[&str]), code: i32, text: &str) {
        let mut last = String::new();
        let is_seen = || {
            let output = self.command(node, words);
            last = format!("{output:?}");
            let printed = [output.stdout, output.stderr].concat();
            let has_text = String::from_utf8_lossy(&printed).contains(text);
            (output.status.code() == Some(code) && has_text).then_some(())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        assert!(found.is_ok(), "{words:?}: not {code} with {text:?}, last {last}\n{}", self.logs());
    }

    /// Waits until a node sees the others in these states.
    #[track_caller]
    fn sees(&self, node: &str, states: [&str; 3]) {
        let mut last = Value::Null;
        let is_seen = || {
            let output = self.command(node, &["nodes", "--format", "json"]);
            last = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let nodes = last["nodes"].as_array()?;
            let seen: Vec<_> = nodes.iter().map(|it| it["state"].as_str().unwrap()).collect();
            let are_known = nodes.iter().all(|it| it["state"] != "up" || it["status"].is_object());
            (seen == states && are_known).then_some(())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        assert!(found.is_ok(), "{node} does not see {states:?}: {last}\n{}", self.logs());
    }

    /// The roll-up of the gateway that fulfils a condition.
    #[track_caller]
    fn rolled_up(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut client = SocketSession::connect(&self.socket("n1"));
        let mut last = Value::Null;
        let is_seen = || {
            last = client.call("rollup", &json!({}));
            is_wanted(&last["result"]).then(|| last["result"].clone())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(is_seen)));
        found.unwrap_or_else(|_| panic!("{last}\n{}", self.logs()))
    }

    /// Kills the process whose id is in this file.
    fn kill(&self, file: &str) {
        let pid = std::fs::read_to_string(self.folder.join(file)).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

impl Drop for ExampleCluster {
    fn drop(&mut self) {
        for file in ["nodes/n1/pid", "nodes/n2/pid", "nodes/n3/pid", "server.pid"] {
            // Those that were stopped have no file, and may have had one for a process that ended.
            let pid = std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

#[test]
fn three_nodes_survive_a_killed_node_and_a_server_that_comes_back() {
    const TEST: &str = "three_nodes_survive_a_killed_node_and_a_server_that_comes_back";
    let version = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status();
    if version.is_err() {
        return skip(TEST, "no nats-server: apt install nats-server");
    }
    let cluster = ExampleCluster::start();
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));
    many_nodes_reply_as_one(&cluster);
    rows_have_the_name_of_their_node(&cluster);
    samples_of_many_nodes_follow_each_other(&cluster);
    what_a_node_executes_ends_with_the_tool(&cluster);
    users_of_other_nodes_only_observe(&cluster);
    #[cfg(feature = "tls")]
    let mut files = members_are_nodes_of_the_files(&cluster);
    doctor_finds_nothing(&cluster);
    a_gateway_has_a_record_of_each_node(&cluster);
    its_page_has_a_map_of_all_nodes(&cluster);
    let mut watch = Followed::start(&cluster, "n1", &watch("n[1-3]", "json"));
    watch.prints_until("rows", |watch| NODES.iter().all(|node| watch.has_row_of(node)));

    cluster.kill("nodes/n3/pid");
    // A node of which it is not known yet that it is dead, or that is no member any more.
    let within = ["ask", "--nodes", "n[1-3]", "--within", "2s", REQUEST];
    cluster.prints(("n1", &within), 4, "monitor: n3: ");
    cluster.sees("n1", ["up", "up", "dead"]);
    #[cfg(feature = "tls")]
    has_state(&mut files, "n3", "down(dead)");
    // Its last record remains, with its age, and is in no sum.
    let late = cluster.rolled_up(|rollup| {
        let node = &rollup["nodes"][2];
        node["record"] == "late" && node["state"] == "dead"
    });
    assert_eq!(late["users"][0]["n_nodes"], 2, "{late}");

    cluster.kill("server.pid");
    let doctor = cluster.doctor("n1");
    cluster.prints(("n1", &doctor.each_ref().map(String::as_str)), 3, "FAILED  reachable");
    // Their own users are served, and a node that starts now waits for the server.
    cluster.prints(("n2", &["ask", REQUEST]), 0, "number_of_nodes(0,");
    let without_server = ["ask", "--nodes", "@*", "--within", "1s", REQUEST];
    cluster.prints(("n1", &without_server), 1, ": missing: no reply");
    // This one sees the processes of the machine.
    cluster.script_with("procfs", &["node", "n3"]);
    cluster.prints(("n3", &["nodes"]), 0, "connecting");
    cluster.script(&["server"]);
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));
    // The command goes on all the time.
    watch.prints_until("n3 again", |watch| {
        let text = watch.errors();
        text.contains("n3: is dead: removed from the cluster\n")
            && text.lines().any(|line| line.ends_with("n3: is followed again"))
    });
    watch.forget_rows();
    watch.prints_until("rows again", |watch| NODES.iter().all(|node| watch.has_row_of(node)));
    let errors = watch.interrupt();
    assert!(errors.contains("monitor: 3 nodes: "), "{errors}");

    #[cfg(feature = "tls")]
    has_state(&mut files, "n3", "up");
    ranks_on_nodes_are_those_of_one_job(&cluster);

    // In order, a node is not dead but has left.
    cluster.script(&["stop"]);
}

/// The keys of `files` of a node that serves its files with TLS.
#[cfg(feature = "tls")]
fn files_config(certificate: &str) -> String {
    format!("tls = \"127.0.0.1:0\"\n{}", files_listen::certificate(certificate))
}

#[cfg(feature = "tls")]
fn has_state(files: &mut Files, node: &str, state: &str) {
    let path = format!("nodes/{node}/state");
    until(|| (read(files, &path).trim() == state).then_some(()));
}

/// `nodes/` of n1: n2 is asked over TLS, n3 serves no files.
#[cfg(feature = "tls")]
fn members_are_nodes_of_the_files(cluster: &ExampleCluster) -> Files {
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

/// A command that goes on, with what it prints in files.
struct Followed {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    /// Bytes of the output that do not count any longer.
    seen: usize,
}

impl Followed {
    fn start(cluster: &ExampleCluster, node: &str, words: &[&str]) -> Self {
        let [output, errors] = ["watch.out", "watch.err"].map(|name| cluster.folder.join(name));
        let [to, errors_to] = [&output, &errors].map(|path| std::fs::File::create(path).unwrap());
        let mut command = monitor();
        command.args(words).env("MONITOR_SOCKET", cluster.socket(node));
        let child = command.stdin(Stdio::null()).stdout(to).stderr(errors_to).spawn().unwrap();
        Self { child, output, errors, seen: 0 }
    }

    fn rows(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    fn has_row_of(&self, node: &str) -> bool {
        self.rows()[self.seen..].contains(&format!(r#""node":"{node}""#))
    }

    fn forget_rows(&mut self) {
        self.seen = self.rows().len();
    }

    #[track_caller]
    fn prints_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let seen = || is_true(self).then_some(());
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(seen)));
        assert!(found.is_ok(), "no {what}: {}{}", self.rows(), self.errors());
    }

    /// Whether its rule is stored on n3.
    fn is_watching(&self, cluster: &ExampleCluster) -> bool {
        let rules =
            cluster.command("n1", &["ask", "--nodes", "n3", r#"{"id":1,"method":"rules"}"#]);
        String::from_utf8_lossy(&rules.stdout).contains("process_terminated")
    }

    /// Interrupts it, and returns what it has printed on standard error.
    fn interrupt(&mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{}", self.errors());
        self.errors()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch of a set in a format.
const fn watch(nodes: &'static str, form: &'static str) -> [&'static str; 11] {
    let every = "50ms";
    let (top, fields) = ("1", "pid,rss_bytes");
    [
        "watch", "--nodes", nodes, "--every", every, "--format", form, "--top", top, "--fields",
        fields,
    ]
}

fn samples_of_many_nodes_follow_each_other(cluster: &ExampleCluster) {
    let twice = |nodes, form| [&watch(nodes, form)[..], &["--count", "2"]].concat();
    cluster.prints(("n2", &twice("n[1-3]", "csv")), 0, "monitor: n[1-3]: 2 samples\n");
    cluster.prints(("n2", &twice("@*", "csv")), 0, "monitor: 3 nodes: 6 samples\n");
    cluster.prints(("n2", &twice("n[1-3]", "table")), 0, "3 nodes  ");
    let output = cluster.command("n2", &twice("n[1-3]", "csv"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for node in NODES {
        let n_rows = text.lines().filter(|line| line.split(',').nth(1) == Some(node)).count();
        assert_eq!(n_rows, 2, "{node}: {output:?}");
    }
    let refused = "monitor: n4: refused: the node is not a member of the cluster";
    cluster.prints(("n1", &twice("n[1-4]", "csv")), 4, refused);
    cluster.prints(("n1", &twice("n4", "csv")), 1, refused);
    cluster.prints(("n1", &twice("n[1-", "csv")), 2, "a bracket is not closed");
    let lease = r#"{"id":1,"method":"monitor","params":{"every_ns":1000000,"lease_ns":1}}"#;
    let forged = format!(r#"{{"id":1,"method":"follow","params":{{"lines":[{lease:?}]}}}}"#);
    cluster.prints(
        ("n1", &["ask", "--nodes", "n2", &forged]),
        1,
        "a command sends no further ones",
    );
}

/// Processes that are the ranks of a job; they end with the test.
struct Ranks(Vec<Child>);

impl Ranks {
    /// They execute this file, which they also have their name from.
    fn start(job: &str, program: &std::path::Path) -> Self {
        std::os::unix::fs::symlink("/bin/sleep", program).unwrap();
        let rank = |number: u32| {
            let mut rank = Command::new(program);
            rank.arg("600").env("PMIX_NAMESPACE", job).env("PMIX_RANK", number.to_string());
            rank.spawn().unwrap()
        };
        Self((0..2).map(rank).collect())
    }

    fn wait_for_state(&self, state: char) {
        for rank in &self.0 {
            let path = format!("/proc/{}/stat", rank.id());
            let sought = format!(") {state} ");
            until(|| std::fs::read_to_string(&path).unwrap().contains(&sought).then_some(()));
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// Only n3 sees the processes, and users of n1 may control them.
fn ranks_on_nodes_are_those_of_one_job(cluster: &ExampleCluster) {
    let job = format!("it-nodes-{}", std::process::id());
    let ranks = Ranks::start(&job, &cluster.folder.join("it-nodes-rank"));
    let verb = |words: &[&'static str]| -> Vec<String> {
        let words = words.iter().map(|it| (*it).to_owned());
        ["job".to_owned()].into_iter().chain(words).chain(["--nodes".into(), "@*".into()]).collect()
    };
    let prints = |node: &str, words: &[String], code, text: &str| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.prints((node, &words), code, text);
    };
    let on = |words: &[&'static str], name: &str| -> Vec<String> {
        let mut all = verb(&words[..1]);
        all.insert(2, name.to_owned());
        all.extend(words[1..].iter().map(|it| (*it).to_owned()));
        all
    };
    let some = format!("{job}:1");
    prints("n2", &on(&["show", "--for", "50ms"], &job), 0, "2 ranks on n3, measured over ");
    prints("n2", &on(&["show", "--for", "50ms"], &job[..9]), 0, "\nRANK NODE ");
    prints("n2", &on(&["show"], "it-no-such"), 6, "no job \"it-no-such\" on these nodes");
    prints("n2", &on(&["hold"], &job), 5, "monitor: n3: refused: ");
    prints("n1", &on(&["hold"], &job), 0, &format!("job {job}: held ranks 0-1 on n3\n"));
    ranks.wait_for_state('T');
    prints("n1", &on(&["release"], &some), 0, &format!("job {job}: released rank 1 on n3\n"));
    prints("n1", &on(&["release"], &job), 0, &format!("job {job}: released ranks 0-1 on n3\n"));
    ranks.wait_for_state('S');
    let rule = ["when", "end", "--comm", "it-nodes-rank", "--nodes", "n3", "--lines", "2"];
    let when = Followed::start(cluster, "n1", &rule);
    until(|| when.is_watching(cluster).then_some(()));
    prints("n1", &on(&["end"], &job), 0, &format!("job {job}: sent SIGTERM to ranks 0-1 on n3\n"));
    when.prints_until("ends of both", |when| {
        let is_printed = |rank: &Child| when.rows().contains(&format!(" {} ended", rank.id()));
        ranks.0.iter().all(is_printed) && when.errors().contains("monitor: n3: 2 events\n")
    });
}

fn what_a_node_executes_ends_with_the_tool(cluster: &ExampleCluster) {
    let list = |text: &str| cluster.prints(("n2", &["list", "--format", "json"]), 0, text);
    let series = r#""period_ns":50000000"#;
    let mut watch = Followed::start(cluster, "n1", &watch("n2", "json"));
    list(series);
    let pid = rustix::process::Pid::from_child(&watch.child);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    watch.child.wait().unwrap();
    until(|| {
        let listed = cluster.command("n2", &["list", "--format", "json"]);
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        (listed.status.success() && !text.contains(series)).then_some(())
    });
}

fn many_nodes_reply_as_one(cluster: &ExampleCluster) {
    let ask = |nodes: &'static str| ["ask", "--nodes", nodes, REQUEST];
    cluster.prints(("n1", &ask("n[1-3]")), 0, "\nn[1-3] (3)\n");
    cluster.prints(("n2", &ask("@*!n3")), 0, "\nn[1-2] (2)\n");
    let refused = "n4: refused: the node is not a member of the cluster";
    cluster.prints(("n1", &ask("n[1-4]")), 4, refused);
    cluster.prints(("n1", &ask("n[1-")), 2, "a bracket is not closed");
    let json = ["ask", "--nodes", "n[2-3]", "--format", "json", REQUEST];
    cluster.prints(("n1", &json), 0, r#""nodes":"n[2-3]","#);
}

fn rows_have_the_name_of_their_node(cluster: &ExampleCluster) {
    let sample = |nodes: &'static str, form: &'static str| {
        let words = ["sample", "--nodes", nodes, "--format", form, "--top", "1"];
        [&words[..], &["--fields", "pid,rss_bytes"]].concat()
    };
    cluster.prints(("n2", &sample("n[1-3]", "table")), 0, "3 nodes  ");
    cluster.prints(("n2", &sample("n[1-3]", "table")), 0, "\nNODE ");
    let nodes_of = |form, name: fn(&str) -> Option<String>| {
        let output = cluster.command("n2", &sample("n[1-3]", form));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(name).collect::<Vec<_>>()
    };
    let cell = |line: &str| line.split(',').nth(1).map(str::to_owned);
    assert_eq!(nodes_of("csv", cell), ["node", "n1", "n2", "n3"]);
    let key = |line: &str| {
        let sample: Value = serde_json::from_str(line).ok()?;
        assert_eq!(sample["processes"].as_array().map(Vec::len), Some(1));
        sample["node"].as_str().map(str::to_owned)
    };
    assert_eq!(nodes_of("json", key), NODES);
    let label = |line: &str| {
        let rest = line.strip_prefix("monitor_process_rss_bytes{node=\"")?;
        rest.split('"').next().map(str::to_owned)
    };
    assert_eq!(nodes_of("prometheus", label), NODES);
    // A family is described once.
    let head =
        |line: &str| line.strip_prefix("# TYPE monitor_process_rss_bytes ").map(str::to_owned);
    assert_eq!(nodes_of("prometheus", head), ["gauge"]);

    cluster.prints(("n1", &sample("n[1-4]", "csv")), 4, "monitor: n4: refused: ");
    cluster.prints(("n1", &sample("n9", "csv")), 1, "monitor: n9: refused: ");
    cluster.prints(("n1", &sample("n[1-", "csv")), 2, "a bracket is not closed");
    let jobs = |nodes: &'static str| ["job", "list", "--format", "csv", "--nodes", nodes];
    cluster.prints(("n1", &jobs("@*")), 0, "node,id,runtime,launcher_pid,");
    cluster.prints(("n1", &jobs("n[3-4]")), 4, "monitor: n4: refused: ");
}

fn users_of_other_nodes_only_observe(cluster: &ExampleCluster) {
    let cancel = |nodes: &'static str| ["ask", "--nodes", nodes, r#"{"id":1,"method":"cancel"}"#];
    cluster.prints(("n1", &cancel("n2")), 0, r#""result""#);
    let refused = "n1: refused: cancel: users of other nodes may only observe";
    cluster.prints(("n2", &cancel("n1")), 1, refused);
}

fn a_gateway_has_a_record_of_each_node(cluster: &ExampleCluster) {
    let all = cluster.rolled_up(|rollup| {
        let nodes = rollup["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let n_current = nodes.iter().filter(|node| node["record"] == "current").count();
        let user = &rollup["users"][0];
        // The first record of a node has no rates.
        n_current == 3 && user["n_nodes"] == 3 && user["cpu_percent"].is_number()
    });
    let names: Vec<_> = all["nodes"].as_array().unwrap().iter().map(|it| &it["node"]).collect();
    assert_eq!(names, NODES);
    // The three read the same values: a sum has three times what one has.
    let user = &all["users"][0];
    let processes = all["nodes"][0]["totals"]["processes"].as_u64().unwrap();
    assert_eq!((&user["n_nodes"], &user["processes"]), (&json!(3), &json!(3 * processes)), "{all}");

    let refused = SocketSession::connect(&cluster.socket("n2")).call("rollup", &json!({}));
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("no gateway: set cluster.gateway"), "{refused}");

    let address = SocketAddr::new(cluster.host.parse().unwrap(), HTTP_PORT);
    let line = "\nmonitor_cluster_node_up{node=\"n3\"} 1\n";
    let metrics = until(|| {
        let text = String::from_utf8(metrics(address)).unwrap();
        text.contains(line).then_some(text)
    });
    assert!(metrics.contains("\nmonitor_cluster_nodes{state=\"up\"} 3\n"), "{metrics}");
    // Without the token, names of users are not exposed.
    assert!(!metrics.contains("monitor_cluster_user_processes"), "{metrics}");
    let printed = promtool("promtool", &["check", "metrics"], metrics.as_bytes());
    assert_eq!(printed.unwrap_or_default(), "", "{metrics}");
}

fn its_page_has_a_map_of_all_nodes(cluster: &ExampleCluster) {
    let status = SocketSession::connect(&cluster.socket("n1")).call("status", &json!({}));
    let http = &status["result"]["http"];
    let token = std::fs::read_to_string(http["token"].as_str().unwrap()).unwrap();
    let address = http["address"].as_str().unwrap();
    let address = format!("{address}/#token={}", token.trim());
    let Some(mut browser) = Browser::open("its_page_has_a_map_of_all_nodes", &address) else {
        return;
    };
    browser.until("document.getElementById('tab-cluster')?.hidden === false");
    let _ = browser.value("document.getElementById('tab-cluster').click()");
    let cells = "[...document.querySelectorAll('.nodemap [role=option]')]";
    browser.until(&format!("{cells}.filter((it) => it.dataset.state === 'up').length === 3"));
    let names = browser.value(&format!("{cells}.map((it) => it.dataset.node).join()"));
    assert_eq!(names, NODES.join(","));
    // Keys select the next node, and what is selected is described.
    let _ = browser.value(&format!("{cells}[0].focus()"));
    browser.key("ArrowRight");
    let caption = "document.querySelector('.nodes figcaption').textContent.startsWith('n2: up')";
    browser.until(caption);
    browser.picture("cluster-light");
    let _ = browser.value("document.getElementById('tab-processes').click()");
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// The metrics of a gateway, without the token.
fn metrics(address: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    Answer::parse(&all).body
}

fn doctor_finds_nothing(cluster: &ExampleCluster) {
    let doctor = cluster.doctor("n3");
    let words = doctor.each_ref().map(String::as_str);
    for text in ["  ok      member     n3\n", "  ok      denials ", "  ok      clock "] {
        cluster.prints(("n3", &words), 0, text);
    }
}
