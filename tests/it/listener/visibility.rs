//! Visibility: a user never sees through the socket what `/proc` would refuse to that user.

use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

/// A process that waits, with some rights.
struct Waiting {
    child: Child,
    what: &'static str,
}

impl Waiting {
    fn new(what: &'static str, rights: &str, program: &[&str]) -> Self {
        let mut command = Command::new("setpriv");
        command.args(rights.split_whitespace()).args(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Its first output means that its rights are set.
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        Self { child, what }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PLAIN: [&str; 3] = ["sh", "-c", "echo; read it"];
const SECRET: [&str; 3] = [
    "/usr/bin/python3",
    "-c",
    "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); input()",
];

/// Capabilities that are worth nothing outside.
const NAMESPACE: &str = "root of its own namespace";

/// Processes of all kinds of rights.
fn workload() -> Vec<Waiting> {
    let inside = ["unshare", "-U", "-r", "sh", "-c", "echo; read it"];
    let own = "--reuid 61234 --regid 61234 --clear-groups";
    let able = format!("{own} --inh-caps +sys_nice --ambient-caps +sys_nice");
    vec![
        Waiting::new("own", own, &PLAIN),
        Waiting::new("another's", "--reuid 61235 --regid 61234 --clear-groups", &PLAIN),
        Waiting::new("root's", "--reuid 0 --regid 0 --clear-groups", &PLAIN),
        Waiting::new("of another group", "--reuid 61234 --regid 61235 --clear-groups", &PLAIN),
        Waiting::new(
            "set-uid",
            "--ruid 61234 --euid 0 --regid 61234 --clear-groups",
            &["cat", "/proc/self/comm", "-"],
        ),
        Waiting::new(
            "set-gid",
            "--reuid 61234 --rgid 61234 --egid 61235 --clear-groups",
            &["cat", "/proc/self/comm", "-"],
        ),
        Waiting::new("with a capability", &able, &PLAIN),
        Waiting::new("not to be dumped", own, &SECRET),
        Waiting::new(NAMESPACE, own, &inside),
    ]
}

/// The row of a process, as this connection sees it.
fn row(session: &mut SocketSession, pid: u32) -> Option<Value> {
    let params = format!(
        "{{\"fields\":[\"uid\",\"cpu_ns\",\"read_call_bytes\",\"tcp_sent_bytes\"],\
         \"targets\":[{{\"pid\":{pid}}}]}}"
    );
    let sample = session.call("monitor", &params);
    sample["result"]["sample"]["processes"].get(0).cloned()
}

fn compare(backend: &str) {
    let served = Served::started("", monitor(), backend);
    let socket = served.socket();
    for it in workload() {
        let pid = it.child.id();
        as_user(&[], || {
            let shown = std::fs::read_to_string(format!("/proc/{pid}/io")).is_ok();
            let mut session = SocketSession::connect(socket);
            let row = row(&mut session, pid).expect("its name is no secret");
            assert!(row["cpu_ns"].is_u64(), "{}: {row}", it.what);
            // From /proc it cannot be seen whose a user namespace is: then less is shown.
            let less = backend == "procfs" && it.what == NAMESPACE;
            assert_eq!(row["read_call_bytes"].is_u64(), shown && !less, "{}: {row}", it.what);
            println!("{backend}: {}: {}", it.what, if shown { "in full" } else { "what is open" });
        });
        let row = row(&mut served.connect(), pid).expect("root sees all");
        assert!(row["read_call_bytes"].is_u64(), "{}: {row}", it.what);
    }
}

#[test]
fn root_the_language_shows_a_user_no_more_than_the_service() {
    if !able("root_the_language_shows_a_user_no_more_than_the_service") {
        return;
    }
    let served = Served::started("", monitor(), "procfs");
    let it = Waiting::new("root's", "--reuid 0 --regid 0 --clear-groups", &PLAIN);
    let pid = it.child.id();
    let request =
        format!("1 [0] mon_sample(\"proc\",[\"cpu_ns\",\"read_call_bytes\"],\"targets\",[{pid}])");
    let seen = served.connect().request(&request);
    assert!(seen.starts_with("1 [0] mon_sample(0,") && seen.contains("\"read_call_bytes\","));
    let seen = as_user(&[], || SocketSession::connect(served.socket()).request(&request));
    assert!(seen.starts_with("1 [0] mon_sample(1,") && seen.contains("\"cpu_ns\","), "{seen}");
    assert!(!seen.contains("\"read_call_bytes\","), "{seen}");
}

#[test]
fn root_the_language_refuses_requests_for_processes_and_files_of_other_users() {
    if !able("root_the_language_refuses_requests_for_processes_and_files_of_other_users") {
        return;
    }
    let served = Served::started("", monitor(), "procfs");
    let it = Waiting::new("root's", "--reuid 0 --regid 0 --clear-groups", &PLAIN);
    let pid = it.child.id();
    let of_another = format!("process {pid} belongs to another user: only that user and root can");
    let folder = Folder::new();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    let path = folder.join("log");
    let unreached = format!("file \\\"{}\\\": permission denied", path.display());
    for (request, want) in [
        (
            format!("mon_heartbeat(\"\",60,\"pid\",{pid})"),
            format!("{of_another} watch its heartbeats"),
        ),
        (format!("mon_register(\"job\",0,\"pid\",{pid})"), format!("{of_another} register it")),
        (format!("mon_file(\"\",\"{}\",60,\"size\",1)", path.display()), unreached),
    ] {
        let request = format!("1 [0] {request}");
        let granted = served.connect().request(&request);
        assert!(granted.contains("(0,\""), "{granted}");
        let reply = as_user(&[], || SocketSession::connect(served.socket()).request(&request));
        assert!(reply.ends_with(&format!("(400,0,\"{want}\")")), "{reply}");
    }
}

#[test]
fn root_ebpf_shows_a_user_exactly_what_proc_would() {
    if able("root_ebpf_shows_a_user_exactly_what_proc_would") {
        compare("ebpf");
    }
}

#[test]
fn root_procfs_shows_a_user_exactly_what_proc_would() {
    if able("root_procfs_shows_a_user_exactly_what_proc_would") {
        compare("procfs");
    }
}

#[test]
fn root_a_grant_to_a_group_shows_all_processes_to_its_users() {
    if !able("root_a_grant_to_a_group_shows_all_processes_to_its_users") {
        return;
    }
    let served = Served::started("[policy]\nobserve-all = [\"@61300\"]\n", monitor(), "procfs");
    let socket = served.socket();
    let others = Waiting::new("root's", "--reuid 0 --regid 0 --clear-groups", &PLAIN);
    for (groups, all) in [(&[][..], false), (&[61_300][..], true)] {
        as_user(groups, || {
            let mut session = SocketSession::connect(socket);
            let row = row(&mut session, others.child.id()).unwrap();
            assert_eq!(row["read_call_bytes"].is_u64(), all);
        });
    }
}

#[test]
fn root_a_user_who_is_granted_nothing_is_refused_with_the_reason() {
    if !able("root_a_user_who_is_granted_nothing_is_refused_with_the_reason") {
        return;
    }
    let config = "[policy]\nobserve-own = [\"@61300\"]\n";
    let served = Served::started(config, monitor(), "test");
    let socket = served.socket();
    as_user(&[], || {
        let mut session = SocketSession::connect(socket);
        let refusal = session.next_json().unwrap();
        assert_eq!(refusal["error"]["message"], "user 61234 is not granted \"observe-own\" here");
        assert_eq!(session.next_json(), None);
    });
    as_user(&[61_300], || {
        let mut session = SocketSession::connect(socket);
        assert_eq!(session.result("hello", "{}")["uid"], USER);
    });
    until(|| (served.status()["refused"]["not granted"] == 1).then_some(()));
}

#[test]
fn root_hidepid_hides_other_processes_except_from_the_group_of_the_mount() {
    if !able("root_hidepid_hides_other_processes_except_from_the_group_of_the_mount") {
        return;
    }
    // A /proc of its own: that of the machine is not changed.
    let mut program = Command::new("unshare");
    let mount = "mount -t proc -o hidepid=2,gid=61300 proc /proc && exec \"$0\" \"$@\"";
    program.args(["-m", "sh", "-c", mount]).arg(monitor().get_program());
    let served = Served::started("", program, "ebpf");
    let socket = served.socket();
    let own = "--reuid 61234 --regid 61234 --clear-groups";
    let [own, others] = [(own, "own"), ("--reuid 0 --regid 0 --clear-groups", "root's")]
        .map(|(rights, what)| Waiting::new(what, rights, &PLAIN));
    for (groups, there) in [(&[][..], false), (&[61_300][..], true)] {
        as_user(groups, || {
            let mut session = SocketSession::connect(socket);
            assert!(row(&mut session, own.child.id()).is_some());
            assert_eq!(row(&mut session, others.child.id()).is_some(), there);
        });
    }
}
