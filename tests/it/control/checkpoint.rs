//! Processes that migrate to another node: two services in this process, joined in memory, on one
//! machine, with user workers of the real program.
//!
//! Where CRIU fails its own check, `service.rs` tests the error.

use crate::deadline::until;
use crate::guardian::OWN_MACHINE;
use crate::root::privilege::granted;
use crate::served::{Folder, monitor};
use crate::socket_session::SocketSession;
use monitor_backend::BackendChoice;
use monitor_cluster::bus::local::LocalBus;
use monitor_cluster::scope::Node;
use monitor_loader::select;
use monitor_server::daemon;
use monitor_server::daemon::config::{ClusterConfig, Config, LoadedConfig};
use monitor_server::daemon::{Endpoint, Settings};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// It counts in a file, all by itself.
pub const COUNTS: &str = "n=0; while :; do n=$((n+1)); echo $n > \"$0\"; done";

/// Set where CRIU must work.
const REQUIRED: &str = "MONITOR_REQUIRE_CRIU";

/// Whether processes can be dumped here; prints a skip if not. On most kernels no installation
/// changes that, so it is a failure only where dumps are known to work.
pub fn able(test: &str) -> bool {
    let is_able = granted(test) && passes();
    if !is_able {
        let is_required = std::env::var_os(REQUIRED).is_some();
        assert!(!is_required, "{test}: CRIU does not work on this kernel, and must ({REQUIRED})");
        let _ = writeln!(std::io::stderr(), "SKIP {test}: no CRIU that works on this kernel");
    }
    is_able
}

/// Whether a process that was restored or has lost its user worker becomes a child of process 1,
/// and can be dumped again; prints a skip if the guardians of the tests take it.
pub fn is_adopted_by_init(test: &str) -> bool {
    let is = std::env::var_os(OWN_MACHINE).is_some();
    if !is {
        let why = format!("its guardians adopt every process without a parent ({OWN_MACHINE})");
        let _ = writeln!(std::io::stderr(), "SKIP {test}: {why}");
    }
    is
}

/// Whether `criu check` succeeds.
pub fn passes() -> bool {
    Command::new("criu").arg("check").output().is_ok_and(|it| it.status.success())
}

/// A service among others; it ends with this.
struct Service {
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    fn start(number: u32, (bus, folder): (&LocalBus, &Folder), dumps: PathBuf) -> Self {
        let socket = folder.join(&format!("socket{number}"));
        let node = Node { name: format!("n{number}"), ..Node::default() };
        let bus = Box::new(bus.clone());
        let cluster = ClusterConfig {
            servers: vec!["memory".to_owned()],
            ledger: folder.join(&format!("ledger{number}")),
            control_from: "@*".to_owned(),
            ..ClusterConfig::default()
        };
        let backend = BackendChoice::Procfs;
        let config = Config { backend, images: dumps, cluster, ..Config::default() };
        let loaded = LoadedConfig { config, ..LoadedConfig::default() };
        let (stop, stopped) = oneshot::channel();
        let place = Endpoint::Socket(socket.clone());
        let thread = std::thread::spawn(move || {
            let worker = env!("CARGO_BIN_EXE_monitor").into();
            let settings = Settings {
                connector: Some(bus),
                worker_program: worker,
                loaded,
                ..Settings::new(place, node, select::opener(BackendChoice::Procfs))
            };
            let backend = select::open(BackendChoice::Procfs, &[], 0).expect("/proc is there").0;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a loop").block_on(async {
                tokio::select! {
                    served = daemon::serve(settings, backend, Vec::new()) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        until(|| socket.exists().then_some(()));
        // The number of a node is its place in the order.
        let mut client = SocketSession::connect(&socket);
        let mut members = || client.call("members", &serde_json::json!({}));
        until(|| (members()["result"]["state"] == "member").then_some(()));
        Self { socket, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed when it happened.
            let _ended = thread.join();
        }
    }
}

/// A process that ends with this.
pub struct Ends(pub u32);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ended = Command::new("kill").args(["-9", &self.0.to_string()]).status();
    }
}

/// Two nodes, a tool of the first, and a process that it has started.
struct MigrationFixture {
    tool: SocketSession,
    pid: u32,
    _ends: Ends,
    folder: Folder,
    _services: [Service; 2],
}

impl MigrationFixture {
    /// The script is given the file that it may count in. The nodes see these folders.
    fn new(script: &str, dumps: [&str; 2]) -> Self {
        let (bus, folder) = (LocalBus::default(), Folder::new());
        let start =
            |number: u32, dumps: &str| Service::start(number, (&bus, &folder), folder.join(dumps));
        let services = [start(0, dumps[0]), start(1, dumps[1])];
        let mut tool = SocketSession::connect(&services[0].socket);
        tool.call("cluster_session", &serde_json::json!({}));
        until(|| tool.request("1 [0] number_of_nodes()").ends_with("(0,2)").then_some(()));
        let script = script.replace('"', "\\\"");
        let file = folder.join("count").display().to_string();
        let started =
            tool.request(&format!("2 [0] start(\"/bin/bash\",[\"-c\",\"{script}\",\"{file}\"])"));
        let pid = started.strip_prefix("2 [0] start(0,").and_then(|it| it.strip_suffix(')'));
        let pid = pid.unwrap_or_else(|| panic!("{started}")).parse().unwrap();
        let it = Self { tool, pid, _ends: Ends(pid), folder, _services: services };
        it.counts_on();
        it
    }

    fn counts_on(&self) {
        counts_on(&self.folder.join("count"));
    }

    /// Stores a request, and enables it.
    fn stored(&mut self, id: u32, node: u32, event: &str, action: &str) {
        let stored = self.tool.request(&format!("{id} [{node}] {event}: {action}"));
        assert!(stored.ends_with("(0)"), "{stored}");
        let enabled = self.tool.request(&format!("{} [{node}] enable({id})", id + 1));
        assert!(enabled.ends_with("(0)"), "{enabled}");
    }

    /// Requests the migration, and returns the lines up to its reply.
    fn moves(&mut self) -> Vec<String> {
        let mut lines = vec![self.tool.request(&format!("50 [0] migrate_process({},1)", self.pid))];
        while !lines.last().unwrap().starts_with("50 ") {
            lines.push(self.tool.line().expect("a reply"));
        }
        lines
    }

    fn has_left_nothing(&self) {
        let images = self.folder.join("images");
        assert_eq!(entries(&images), 0, "of the files nothing is left");
    }
}

pub fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

pub fn counts_on(file: &Path) {
    let count = || std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let before = until(count);
    until(|| count().filter(|it| *it > before + 10));
}

#[test]
fn root_a_process_migrates_to_another_node_and_continues() {
    let test = "root_a_process_migrates_to_another_node_and_continues";
    if !(able(test) && is_adopted_by_init(test)) {
        return;
    }
    let mut fixture = MigrationFixture::new(COUNTS, ["images"; 2]);
    let pid = fixture.pid;
    assert_eq!(fixture.tool.request("3 [0] prepare_checkpoint()"), "3 [0] prepare_checkpoint(0)");
    fixture.stored(10, 0, &format!("ready_to_migrate([{pid}])"), "12 [0] print([$1,$2])");
    fixture.stored(20, 1, &format!("migration_finished([{pid}])"), "22 [1] print($1)");
    fixture.stored(30, 0, "process_terminated([])", "32 [0] print(\"it ended\")");
    let mut lines = fixture.moves();
    while lines.len() < 3 {
        lines.push(fixture.tool.line().unwrap());
    }
    lines.sort();
    let moved = "50 [0] migrate_process(0)".to_owned();
    assert_eq!(
        lines,
        [format!("12 [0] print(0,[{pid},1])"), format!("22 [1] print(0,[{pid}])"), moved]
    );
    fixture.counts_on();
    fixture.has_left_nothing();
    // It is there and no longer here; the migration was not reported as an end.
    let there = fixture.tool.request(&format!("60 [1] process_info([{pid}],4)"));
    assert!(there.starts_with(&format!("60 [1] process_info(0,1,[{pid},")), "{there}");
    let here = fixture.tool.request(&format!("61 [0] process_info([{pid}],4)"));
    assert!(here.starts_with("61 [0] process_info(301,"), "{here}");
    // Its parent is process 1 now, so it may go on.
    let back = fixture.tool.request(&format!("62 [1] migrate_process({pid},0)"));
    assert_eq!(back, "62 [1] migrate_process(0)");
    fixture.counts_on();
    fixture.has_left_nothing();
}

#[test]
fn root_a_process_with_a_connection_stays() {
    if !able("root_a_process_with_a_connection_stays") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; {COUNTS}", address.port());
    let mut fixture = MigrationFixture::new(&script, ["images"; 2]);
    let why = format!(
        "402,0,\"process {} is connected to {address} (descriptor 3): messages in transit would \
         be lost, because no library lets others drain its connections\")",
        fixture.pid
    );
    let refused = fixture.tool.request("3 [0] prepare_checkpoint()");
    assert_eq!(refused, format!("3 [0] prepare_checkpoint({why}"));
    assert_eq!(fixture.moves(), [format!("50 [0] migrate_process({why}")]);
    fixture.counts_on();
}

#[test]
fn root_a_process_with_a_child_stays_and_can_be_dumped() {
    if !able("root_a_process_with_a_child_stays_and_can_be_dumped") {
        return;
    }
    let mut fixture = MigrationFixture::new(&format!("sleep 1000 & {COUNTS}"), ["images"; 2]);
    let children = format!("/proc/{0}/task/{0}/children", fixture.pid);
    let child: u32 = until(|| std::fs::read_to_string(&children).ok()?.trim().parse().ok());
    let _ends = Ends(child);
    assert_eq!(fixture.tool.request("3 [0] prepare_checkpoint()"), "3 [0] prepare_checkpoint(0)");
    let refused = fixture.moves().remove(0);
    let why =
        format!("migrate_process(402,0,\"process {} has a child, process {child},", fixture.pid);
    assert!(refused.contains(&why), "{refused}");
    fixture.counts_on();
}

#[test]
fn root_a_process_that_criu_refuses_runs_on() {
    if !able("root_a_process_that_criu_refuses_runs_on") {
        return;
    }
    // Another process may have the lock, too: CRIU dumps it only with an option.
    let script = format!("exec 3>\"$0.lock\"; flock 3; {COUNTS}");
    let mut fixture = MigrationFixture::new(&script, ["images"; 2]);
    let refused = fixture.moves().remove(0);
    let why = "migrate_process(402,0,\"the process could not be dumped; it runs on as before: \
               CRIU: Error";
    assert!(refused.contains(why) && refused.contains("lock"), "{refused}");
    fixture.counts_on();
    fixture.has_left_nothing();
}

#[test]
fn root_a_process_that_cannot_be_restored_there_runs_on_here() {
    if !able("root_a_process_that_cannot_be_restored_there_runs_on_here") {
        return;
    }
    let mut fixture = MigrationFixture::new(COUNTS, ["images", "others"]);
    let refused = fixture.moves().remove(0);
    let why = "50 [0] migrate_process(105,0,\"node 1 could not restore it: no dump";
    assert!(refused.starts_with(why) && refused.contains("it continues here"), "{refused}");
    fixture.counts_on();
    fixture.has_left_nothing();
    // To the tool it is the same process.
    let here = fixture.tool.request(&format!("60 [0] process_info([{}],4)", fixture.pid));
    assert!(here.starts_with(&format!("60 [0] process_info(0,1,[{},", fixture.pid)), "{here}");
}

/// Refusals of a service that is the only node.
#[test]
fn root_a_migration_to_no_other_node_is_refused_before_anything_happens() {
    if !granted("root_a_migration_to_no_other_node_is_refused_before_anything_happens") {
        return;
    }
    let served = crate::served::Served::started("", monitor(), "procfs");
    let mut session = served.connect();
    let started = session.request("1 [0] start(\"/bin/sleep\",[\"1000\"])");
    let pid = started.strip_prefix("1 [0] start(0,").and_then(|it| it.strip_suffix(')')).unwrap();
    let _ends = Ends(pid.parse().unwrap());
    let refused = session.request(&format!("2 [0] migrate_process({pid},0)"));
    assert_eq!(
        refused,
        format!("2 [0] migrate_process(303,0,\"process {pid} is on node 0 already\")")
    );
    let refused = session.request(&format!("3 [0] migrate_process({pid},4)"));
    assert_eq!(refused, "3 [0] migrate_process(200,0,\"no node 4: see list_nodes\")");
}
