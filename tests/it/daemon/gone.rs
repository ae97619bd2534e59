//! A requestor that is killed, and a service that is.
//!
//! How soon all is over is printed, and held to a bar by the bench of the service: a machine that
//! is busy with other tests needs longer.

use crate::deadline;
use crate::root::privilege::granted;
use crate::root::undo::{programs, programs_of};
use crate::root::workload::Guarded;
use crate::served::Served;
use crate::socket_session::SocketSession;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// Monitors of the killed requestor: a prime number, over several connections.
const MONITORS: usize = 53;

/// A requestor that monitors all processes as often as it may, and never reads the samples.
fn requestor(socket: &Path) -> Guarded {
    let program = format!(
        "import socket,json,sys\n\
         all=[]\n\
         for n in range({MONITORS}):\n  \
           if n%11==0:\n    \
             s=socket.socket(socket.AF_UNIX); s.connect({socket:?}); all.append(s)\n  \
           p=dict(id='m%d'%n,every_ns=10000000,fields=['cpu_ns','tcp_sent_bytes'])\n  \
           s.sendall((json.dumps(dict(id=n,method='monitor',params=p))+'\\n').encode())\n\
         print('ready',flush=True)\n\
         sys.stdin.read()",
        socket = socket.display().to_string(),
    );
    let mut it = Guarded::python(&program);
    assert_eq!(it.line(), "ready");
    it
}

#[test]
fn root_a_requestor_killed_in_the_middle_of_a_sample_leaves_nothing_behind() {
    if !granted("root_a_requestor_killed_in_the_middle_of_a_sample_leaves_nothing_behind") {
        return;
    }
    let service = Served::start("ebpf");
    let mut client = service.connect();
    let listed = |client: &mut SocketSession| {
        client.call("list", "{}")["result"].as_array().map_or(usize::MAX, Vec::len)
    };
    // What is made once is made now.
    assert_eq!(client.call("monitor", "{}")["result"]["status"], "SUCCESS");
    let descriptors = service.descriptors();
    let loaded = programs_of(service.pid());
    for _ in 0..3 {
        let mut killed = requestor(service.socket());
        deadline::until(|| (listed(&mut client) == MONITORS).then_some(()));
        killed.0.kill().unwrap();
        let start = Instant::now();
        deadline::until(|| (listed(&mut client) == 0).then_some(()));
        println!("{MONITORS} monitors gone within {:?} of a kill -9", start.elapsed());
        deadline::until(|| (service.descriptors() <= descriptors).then_some(()));
    }
    let more: Vec<u32> = programs_of(service.pid()).difference(&loaded).copied().collect();
    assert!(more.is_empty(), "programs that were not there before: {more:?}");
}

#[test]
fn root_a_killed_service_leaves_nothing_attached_and_counts_correctly_after_a_restart() {
    if !granted(
        "root_a_killed_service_leaves_nothing_attached_and_counts_correctly_after_a_restart",
    ) {
        return;
    }
    let mut service = Served::start("ebpf");
    let ours: BTreeSet<u32> = programs_of(service.pid());
    assert!(ours.len() >= 4, "{ours:?}");
    let mut worker = Guarded::python("sum(range(10**7)); print('done',flush=True); input()");
    assert_eq!(worker.line(), "done");
    deadline::until(|| worker.sleeps().then_some(()));
    let mut client = service.connect();
    let request = format!(
        r#"{{"fields":["cpu_ns","tcp_sent_bytes","counted_since_ns"],"targets":[{{"pid":{}}}]}}"#,
        worker.pid().0
    );
    let sample = |it: serde_json::Value| it["result"]["sample"]["processes"][0].clone();
    let first = sample(client.call("monitor", &request));
    service.kill();
    assert_eq!(client.next_json(), None, "a client sees its connection close");
    deadline::until(|| programs().is_disjoint(&ours).then_some(()));
    service.restart();
    let second = sample(service.connect().call("monitor", &request));
    // The count of the kernel continues: the worker has slept all the time.
    assert_eq!(first["cpu_ns"], second["cpu_ns"]);
    assert!(second["cpu_ns"].as_u64().unwrap() > 0);
    // The counts of our maps restart, and have the time of the restart.
    let since = |it: &serde_json::Value| it["counted_since_ns"].as_u64();
    println!("counted since {:?}, after the restart since {:?}", since(&first), since(&second));
    assert!(since(&second).unwrap() > second["start_time_ns"].as_u64().unwrap());
    assert!(since(&second) > since(&first));
}

/// The end of a target is reported soon, though its monitor samples once an hour: long after the
/// deadline of the connection.
fn reports_an_end_soon(backend: &str) {
    let service = Served::start(backend);
    let mut worker = Guarded::sh("read x; exit 7");
    let mut client = service.connect();
    let request = format!(
        r#"{{"fields":["cpu_ns","ended","exit_code"],"every_ns":3600000000000,
        "targets":[{{"pid":{}}}]}}"#,
        worker.pid().0
    );
    let first = client.call("monitor", &request.replace('\n', ""));
    assert_eq!(first["result"]["status"], "SUCCESS", "{first}");
    worker.send_line("end");
    worker.0.wait().unwrap();
    let start = Instant::now();
    let event = client.event();
    println!("{backend}: an end was reported {:?} after it", start.elapsed());
    let process = &event["sample"]["processes"][0];
    assert_eq!((&event["ended"], &process["ended"]), (&"targets_gone".into(), &true.into()));
    // From /proc alone, the status is known where the kernel shows it.
    let code = &process["exit_code"];
    assert!(*code == 7 || (backend == "procfs" && code.is_null()), "{process}");
}

#[test]
fn root_an_end_is_reported_soon_with_the_kernels_last_record() {
    if granted("root_an_end_is_reported_soon_with_the_kernels_last_record") {
        reports_an_end_soon("ebpf");
    }
}

#[test]
fn an_end_is_reported_soon_from_proc_alone() {
    reports_an_end_soon("procfs");
}
