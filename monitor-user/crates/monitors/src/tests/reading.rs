//! Readings: only requested data is read, and data that cannot be read is reported.

use super::fixture::{Fixture, MS, S};
use monitor_backends::unsupported::Unsupported;
use monitor_model::{Capability, Credentials, Devices, Pid, ProcessField, ProcessFilter, ReadSpec};
use serde_json::json;

const WORLD: &str = "process 7 cpu_ns=1s pss_bytes=5\nprocess 8\nnode load1=1\ndisk sda reads=1";

fn read_specs(fixture: &Fixture) -> Vec<ReadSpec> {
    fixture.backend_calls().read_specs.clone()
}

#[test]
fn only_the_requested_part_is_read() {
    let mut fixture = Fixture::scripted(WORLD);
    let _node = fixture.monitor(1, r#"{"part":"node","fields":["load1"]}"#);
    let [want] = &read_specs(&fixture)[..] else { panic!("one reading") };
    assert!(want.node && !want.processes && want.disks == Devices::None);
    let _disk = fixture.monitor(1, r#"{"part":"disk","fields":["reads"]}"#);
    let last = read_specs(&fixture).pop().unwrap();
    assert!(!last.node && !last.processes && last.disks == Devices::All);
}

#[test]
fn costly_fields_and_threads_are_read_only_for_monitors_that_want_them() {
    let mut fixture = Fixture::scripted(WORLD);
    let _plain = fixture.monitor(1, &format!(r#"{{"id":"p","every_ns":{S}}}"#));
    let _costly =
        fixture.monitor(2, &format!(r#"{{"id":"c","fields":["pss_bytes"],"every_ns":{S}}}"#));
    let before = read_specs(&fixture).len();
    let _outputs = fixture.at(S + 50 * MS);
    let costly: Vec<_> =
        read_specs(&fixture)[before..].iter().map(|it| it.wants(ProcessField::Pss)).collect();
    assert_eq!(costly, [false, true]);
    assert!(read_specs(&fixture).iter().all(|it| !it.threads));
}

#[test]
fn page_tables_are_walked_only_for_targets_that_the_caller_may_read() {
    let mut fixture = Fixture::scripted(WORLD);
    let one = r#"{"fields":["pss_bytes"],"targets":[{"pid":7}]}"#;
    let got = [(1, one), (3, one), (3, r#"{"fields":["pss_bytes"]}"#)].map(|(conn, request)| {
        let _outputs = fixture.monitor(conn, request);
        read_specs(&fixture).pop().unwrap().pss_of
    });
    let (pids, credentials) = (Some(vec![Pid(7)]), Some(Credentials { uid: 1000, gid: 1000 }));
    let of = |pids, credentials| ProcessFilter { pids, credentials };
    assert_eq!(got, [of(pids.clone(), None), of(pids, credentials), of(None, credentials)]);
}

#[test]
fn the_capabilities_follow_from_the_requested_fields() {
    let mut fixture = Fixture::scripted(WORLD);
    let _node = fixture.monitor(1, r#"{"part":"node"}"#);
    assert_eq!(fixture.backend_calls().attached.last(), Some(&vec![]));
    let request =
        |field: &str| format!(r#"{{"id":"{field}","fields":["{field}"],"every_ns":{S}}}"#);
    let _udp = fixture.monitor(1, &request("udp_sent_bytes"));
    let has =
        |fixture: &Fixture, it| fixture.backend_calls().attached.last().unwrap().contains(&it);
    assert!(has(&fixture, Capability::Sockets) && !has(&fixture, Capability::Block));
    let _block = fixture.monitor(2, &request("block_read_bytes"));
    assert!(has(&fixture, Capability::Sockets) && has(&fixture, Capability::Block));
}

#[test]
fn an_opt_in_capability_is_not_attached_and_detached_with_each_request() {
    let mut fixture = Fixture::scripted(WORLD);
    let _keeps = fixture.monitor(2, &format!(r#"{{"id":"k","every_ns":{S}}}"#));
    for second in 0..20 {
        let _outputs = fixture.at(second * S + 50 * MS);
        let _once = fixture.monitor(1, r#"{"fields":["udp_sent_bytes"]}"#);
    }
    let changes = fixture.backend_calls().attached.len();
    assert_eq!(changes, 2, "the default set, then sockets");
    let _outputs = fixture.at(40 * S);
    let last = fixture.backend_calls().attached.last().unwrap().clone();
    assert!(!last.contains(&Capability::Sockets), "{last:?}");
}

#[test]
fn a_few_processes_are_read_alone_while_that_gives_all_requested_fields() {
    let mut fixture = Fixture::with_partial_reads(WORLD);
    let one = |id: &str, fields: &str, pid: u32| {
        let what = format!(r#""fields":["{fields}"],"targets":[{{"pid":{pid}}}]"#);
        format!(r#"{{"id":"{id}","every_ns":{S},{what}}}"#)
    };
    let _a = fixture.monitor(1, &one("a", "cpu_ns", 7));
    let _b = fixture.monitor(2, &one("b", "rss_bytes", 8));
    let _outputs = fixture.at(S + 50 * MS);
    let partial_reads = |fixture: &Fixture| {
        fixture.backend_calls().partial_reads.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!((read_specs(&fixture).len(), partial_reads(&fixture)), (0, vec![1, 1, 2]));
    // One monitor wants a field that only a hook counts: all processes are read, once for all.
    let hooked = one("c", "tcp_sent_bytes", 7).replace(&S.to_string(), &(S - 50 * MS).to_string());
    let _c = fixture.monitor(1, &hooked);
    assert_eq!(fixture.at(2 * S + 50 * MS).len(), 3);
    assert_eq!((read_specs(&fixture).len(), partial_reads(&fixture).len()), (2, 3));
}

#[test]
fn a_host_without_a_backend_answers_every_request_with_not_supported() {
    let mut fixture = Fixture::with(Unsupported::new("it was chosen", "choose another"), false);
    for part in ["proc", "node", "disk", "net", "all"] {
        for every in [String::new(), format!(r#","every_ns":{S}"#)] {
            let got = fixture.monitor(1, &format!(r#"{{"part":"{part}"{every}}}"#));
            assert_eq!(got["error"], "NOT_SUPPORTED", "{part}");
            let said = "reading statistics is not supported here: it was chosen; choose another";
            assert_eq!(got["message"], json!(said));
        }
    }
    assert!(fixture.engine.is_empty());
}
