//! Only what somebody asks for is read; what cannot be read is said.

use super::scene::{MS, S, Scene};
use monitor_backends::unsupported::Unsupported;
use monitor_model::field::ProcessField;
use monitor_model::id::Pid;
use monitor_model::want::{Capability, Devices, Want};
use monitor_model::whose::{Eyes, Whose};
use serde_json::json;

const WORLD: &str = "process 7 cpu_ns=1s pss_bytes=5\nprocess 8\nnode load1=1\ndisk sda reads=1";

fn wants(scene: &Scene) -> Vec<Want> {
    scene.asked().wants.clone()
}

#[test]
fn only_the_part_that_is_asked_for_is_read() {
    let mut scene = Scene::of(WORLD);
    let _node = scene.monitor(1, r#"{"part":"node","fields":["load1"]}"#);
    let [want] = &wants(&scene)[..] else { panic!("one reading") };
    assert!(want.node && !want.processes && want.disks == Devices::None);
    let _disk = scene.monitor(1, r#"{"part":"disk","fields":["reads"]}"#);
    let last = wants(&scene).pop().unwrap();
    assert!(!last.node && !last.processes && last.disks == Devices::All);
}

#[test]
fn costly_fields_and_threads_are_read_for_those_who_want_them_alone() {
    let mut scene = Scene::of(WORLD);
    let _plain = scene.monitor(1, &format!(r#"{{"id":"p","every_ns":{S}}}"#));
    let _costly =
        scene.monitor(2, &format!(r#"{{"id":"c","fields":["pss_bytes"],"every_ns":{S}}}"#));
    let before = wants(&scene).len();
    let _told = scene.at(S + 50 * MS);
    let costly: Vec<_> =
        wants(&scene)[before..].iter().map(|it| it.wants(ProcessField::Pss)).collect();
    assert_eq!(costly, [false, true]);
    assert!(wants(&scene).iter().all(|it| !it.threads));
}

#[test]
fn page_tables_are_walked_of_those_who_are_watched_and_may_be_looked_into() {
    let mut scene = Scene::of(WORLD);
    let one = r#"{"fields":["pss_bytes"],"targets":[{"pid":7}]}"#;
    let got = [(1, one), (3, one), (3, r#"{"fields":["pss_bytes"]}"#)].map(|(conn, request)| {
        let _told = scene.monitor(conn, request);
        wants(&scene).pop().unwrap().pss_of
    });
    let (pids, eyes) = (Some(vec![Pid(7)]), Some(Eyes { uid: 1000, gid: 1000 }));
    let of = |pids, eyes| Whose { pids, eyes };
    assert_eq!(got, [of(pids.clone(), None), of(pids, eyes), of(None, eyes)]);
}

#[test]
fn what_must_be_attached_follows_from_what_is_asked() {
    let mut scene = Scene::of(WORLD);
    let _node = scene.monitor(1, r#"{"part":"node"}"#);
    assert_eq!(scene.asked().attached.last(), Some(&vec![]));
    let request =
        |field: &str| format!(r#"{{"id":"{field}","fields":["{field}"],"every_ns":{S}}}"#);
    let _udp = scene.monitor(1, &request("udp_sent_bytes"));
    let has = |scene: &Scene, it| scene.asked().attached.last().unwrap().contains(&it);
    assert!(has(&scene, Capability::Sockets) && !has(&scene, Capability::Block));
    let _block = scene.monitor(2, &request("block_read_bytes"));
    assert!(has(&scene, Capability::Sockets) && has(&scene, Capability::Block));
}

#[test]
fn an_opt_in_capability_does_not_come_and_go_with_each_request() {
    let mut scene = Scene::of(WORLD);
    let _keeps = scene.monitor(2, &format!(r#"{{"id":"k","every_ns":{S}}}"#));
    for second in 0..20 {
        let _told = scene.at(second * S + 50 * MS);
        let _once = scene.monitor(1, r#"{"fields":["udp_sent_bytes"]}"#);
    }
    let changes = scene.asked().attached.len();
    assert_eq!(changes, 2, "the default set, then sockets");
    let _told = scene.at(40 * S);
    let last = scene.asked().attached.last().unwrap().clone();
    assert!(!last.contains(&Capability::Sockets), "{last:?}");
}

#[test]
fn few_processes_are_read_alone_while_the_kernel_has_all_that_is_wanted_of_them() {
    let mut scene = Scene::glancing(WORLD);
    let one = |id: &str, fields: &str, pid: u32| {
        let what = format!(r#""fields":["{fields}"],"targets":[{{"pid":{pid}}}]"#);
        format!(r#"{{"id":"{id}","every_ns":{S},{what}}}"#)
    };
    let _a = scene.monitor(1, &one("a", "cpu_ns", 7));
    let _b = scene.monitor(2, &one("b", "rss_bytes", 8));
    let _told = scene.at(S + 50 * MS);
    let glances = |scene: &Scene| scene.asked().glances.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!((wants(&scene).len(), glances(&scene)), (0, vec![1, 1, 2]));
    // Somebody wants what only a hook counts: everybody is read, once, for all.
    let hooked = one("c", "tcp_sent_bytes", 7).replace(&S.to_string(), &(S - 50 * MS).to_string());
    let _c = scene.monitor(1, &hooked);
    assert_eq!(scene.at(2 * S + 50 * MS).len(), 3);
    assert_eq!((wants(&scene).len(), glances(&scene).len()), (2, 3));
}

#[test]
fn a_host_without_a_backend_answers_every_request_with_not_supported() {
    let mut scene = Scene::with(Unsupported::new("it was chosen", "choose another"), false);
    for part in ["proc", "node", "disk", "net", "all"] {
        for every in [String::new(), format!(r#","every_ns":{S}"#)] {
            let got = scene.monitor(1, &format!(r#"{{"part":"{part}"{every}}}"#));
            assert_eq!(got["error"], "NOT_SUPPORTED", "{part}");
            let said = "reading statistics is not supported here: it was chosen; choose another";
            assert_eq!(got["message"], json!(said));
        }
    }
    assert!(scene.engine.is_empty());
}
