//! TCP from `inet_diag`, compared with what the programs count and what was sent.

use super::actor::Actor;
use super::privilege::granted;
use super::tcp::Pair;
use super::workload::{alive, ebpf, exact, processes, served};
use monitor_backend::Backend as _;
use monitor_backends::inet_diag::InetDiag;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use monitor_model::sample::{Process, Sample};
use serde_json::Value;
use std::process::Command;

const MIB_64: u64 = 64 << 20;
const FIELDS: [F; 8] = [
    F::TcpSent,
    F::TcpReceived,
    F::Tcp6Sent,
    F::Tcp6Received,
    F::TcpSegmentsOut,
    F::TcpSegmentsIn,
    F::TcpRetransmits,
    F::TcpSockets,
];

fn values(sample: &Sample, pid: Pid) -> [Option<u64>; 8] {
    FIELDS.map(|field| alive(sample, pid).unwrap().row.get(field))
}

/// The same sample without its TCP fields, which are then set from the list of sockets.
fn again(sample: &Sample, sockets: &mut InetDiag) -> Sample {
    let bare = |it: &Process| {
        let mut copy = it.clone();
        FIELDS.into_iter().chain([F::TcpRtt]).for_each(|field| copy.row.clear(field));
        copy
    };
    let processes = sample.processes.iter().map(bare).collect();
    let mut again = Sample { processes, ..sample.clone() };
    let notes = sockets.merge_into(&mut again.processes, sample.at.boot).unwrap();
    // Processes that others run may be in other network namespaces.
    assert!(notes.iter().all(|note| !note.text.contains("CAP_SYS_PTRACE")), "all are seen");
    again
}

#[test]
fn root_inet_diag_has_the_counts_of_the_programs_while_sockets_are_open() {
    let name = "root_inet_diag_has_the_counts_of_the_programs_while_sockets_are_open";
    if !granted(name) {
        return;
    }
    let Some(mut backend) = exact(name, &[Capability::Lifetimes, Capability::Tcp]) else { return };
    let mut sockets = InetDiag::open("/proc".into()).unwrap();
    for family in ["AF_INET", "AF_INET6"] {
        let mut pair = Pair::connected(family);
        pair.carry(MIB_64);
        let sample = backend.read(&processes()).unwrap();
        let again = again(&sample, &mut sockets);
        assert_eq!(pair.payload(&again), [[MIB_64, 0], [0, MIB_64]]);
        for pid in [pair.client.pid(), pair.server.pid()] {
            assert_eq!(values(&again, pid), values(&sample, pid));
            let [one, other] =
                [&sample, &again].map(|it| alive(it, pid).unwrap().row.get(F::TcpRtt).unwrap());
            // Its list has whole microseconds.
            assert!(one.abs_diff(other) < 1_000, "{one} and {other} ns");
        }
        println!("{family}: {:?}", values(&again, pair.client.pid()));
    }
}

#[test]
fn root_open_sockets_are_exact_with_the_hooks_of_this_kernel() {
    let name = "root_open_sockets_are_exact_with_the_hooks_of_this_kernel";
    if !granted(name) {
        return;
    }
    let capabilities = [Capability::Lifetimes, Capability::Tcp];
    let Some(mut backend) = served(name, &capabilities) else { return };
    let mut pair = Pair::connected("AF_INET");
    pair.carry(MIB_64);
    let sample = backend.read(&processes()).unwrap();
    assert_eq!(pair.payload(&sample), [[MIB_64, 0], [0, MIB_64]]);
}

#[test]
fn root_a_closed_socket_keeps_its_last_count_in_its_process() {
    let name = "root_a_closed_socket_keeps_its_last_count_in_its_process";
    if !granted(name) {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let mut sockets = InetDiag::open("/proc".into()).unwrap();
    let mut read = || again(&backend.read(&processes()).unwrap(), &mut sockets);
    let mut pair = Pair::connected("AF_INET");
    pair.carry(1_000_003);
    let want = [[1_000_003, 0], [0, 1_000_003]];
    assert_eq!(pair.payload(&read()), want);
    pair.both("s.close()");
    assert_eq!(pair.payload(&read()), want);
    let _ = pair.server.run("l.close()");
    assert_eq!(pair.payload(&read()), want);
}

#[test]
fn root_a_socket_that_changes_its_owner_is_divided_by_inet_diag_too() {
    let name = "root_a_socket_that_changes_its_owner_is_divided_by_inet_diag_too";
    if !granted(name) {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes]);
    let mut sockets = InetDiag::open("/proc".into()).unwrap();
    let mut read = || again(&backend.read(&processes()).unwrap(), &mut sockets);
    let mut pair = Pair::connected("AF_INET");
    let child = pair.client.run("p = subprocess.Popen(['sleep', '1000'], stdin=s); it = p.pid");
    pair.carry(1_000_003);
    let sample = read();
    let of_child = |sample: &Sample| {
        let child = alive(sample, Pid(u32::try_from(child).unwrap())).unwrap();
        child.row.get(F::TcpSent)
    };
    assert_eq!((pair.payload(&sample)[0], of_child(&sample)), ([1_000_003, 0], Some(0)));
    let _ = pair.client.run("s.close()");
    let sample = read();
    assert_eq!((pair.payload(&sample)[0], of_child(&sample)), ([1_000_003, 0], Some(0)));
    let _ = pair.client.run("p.kill(); p.wait(); it = 0");
    assert_eq!(pair.payload(&read())[0], [1_000_003, 0]);
}

#[test]
fn root_the_procfs_backend_with_inet_diag_counts_tcp() {
    let name = "root_the_procfs_backend_with_inet_diag_counts_tcp";
    if !granted(name) {
        return;
    }
    let mut backend = Procfs::open(Root::default()).unwrap().with_tcp().unwrap();
    let mut pair = Pair::connected("AF_INET6");
    pair.carry(MIB_64);
    let sample = backend.read(&processes()).unwrap();
    assert_eq!(pair.payload(&sample), [[MIB_64, 0], [0, MIB_64]]);
}

#[test]
fn root_a_process_in_another_network_namespace_has_no_tcp_from_inet_diag() {
    let name = "root_a_process_in_another_network_namespace_has_no_tcp_from_inet_diag";
    if !granted(name) {
        return;
    }
    let mut backend = Procfs::open(Root::default()).unwrap().with_tcp().unwrap();
    let (mut away, mut home) = (Actor::new(), Actor::new());
    let [sent, kept] = [away.pid(), home.pid()];
    let _ = home.run("l = listening(socket.AF_INET); it = 1");
    let first = backend.read(&processes()).unwrap();
    assert_eq!(values(&first, sent)[0], Some(0), "it is still here");
    let _ = away.run("import ctypes; it = ctypes.CDLL(None).unshare(0x40000000)"); // CLONE_NEWNET
    let _ = away.run("subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True); it = 0");
    let connect = "l = listening(socket.AF_INET); \
                   s = connected(socket.AF_INET, l.getsockname()[1]); it = s.send(bytes(23))";
    assert_eq!(away.run(connect), 23);
    let sample = backend.read(&processes()).unwrap();
    assert_eq!(values(&sample, sent), [None; 8]);
    assert_eq!(values(&sample, kept)[0], Some(0));
    assert!(sample.notes.iter().any(|note| note.text.contains("other network namespaces")));
}

#[test]
fn root_without_privilege_only_own_sockets_are_counted_with_a_note() {
    let name = "root_without_privilege_only_own_sockets_are_counted_with_a_note";
    if !granted(name) {
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all", env!("CARGO_BIN_EXE_monitor")])
        .args(["sample", "--backend", "procfs", "--format", "json"])
        .output()
        .unwrap();
    let sample: Value = serde_json::from_slice(&output.stdout).unwrap();
    let uid = |process: &&Value| process["uid"] == 65534;
    let all = sample["processes"].as_array().unwrap();
    let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(uid);
    assert!(own.iter().all(|it| it["tcp_sent_bytes"].is_u64()), "{own:?}");
    assert!(others.iter().all(|it| it.get("tcp_sent_bytes").is_none()));
    let notes = sample["notes"].to_string();
    assert!(notes.contains("no TCP counters of"), "{notes}");
}
