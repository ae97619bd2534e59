//! The client library, against a daemon with fixed values.

use crate::root::workload::Guarded;
use crate::served::Served;
use monitor_client::{Client, Error};
use monitor_client::{Told, blocking};
use monitor_model::request::Request;
use monitor_model::request::Target;
use monitor_model::status::Status;
use monitor_protocol::event::Alert;
use monitor_protocol::params::{Cancel, FileWatch, Heartbeat};
use std::time::Duration;

#[path = "../../../docs/examples/client.rs"]
mod example;

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a loop").block_on(future)
}

fn request(id: &str, every_ms: u64) -> Request {
    Request {
        id: Some(id.into()),
        part: "node".into(),
        fields: Some(vec!["load1".into()]),
        every_ns: Some(every_ms * 1_000_000),
        ..Request::default()
    }
}

#[test]
fn the_example_of_the_manual_runs() {
    let service = Served::start("test");
    wait(async {
        let cpu = example::once(service.socket(), 1234).await.expect("a sample");
        assert!(cpu.is_some_and(|cpu| cpu > 0));
        assert_eq!(example::again(service.socket(), 3).await.expect("a series"), [0, 1, 2]);
    });
    assert_eq!(example::names(service.socket()).expect("a list"), [""; 0]);
}

#[test]
fn a_refusal_has_its_status_and_its_sentence() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let targets = vec![Target::Pid { pid: 9, node: None }];
        let got = client.sample(&Request { targets, ..Request::default() }).await;
        let Err(Error::Refused(refusal)) = got else { panic!("{got:?}") };
        assert_eq!((refusal.status, &*refusal.message), (Status::NotFound, "no process 9"));
    });
}

#[test]
fn nobody_there_is_said_with_the_path() {
    let got = blocking::Client::connect_to(std::path::Path::new("/no/such.sock")).err();
    let text = got.expect("nobody listens there").to_string();
    assert!(text.starts_with("no daemon answers at /no/such.sock: No such file"), "{text}");
}

#[test]
fn many_calls_share_a_connection_and_each_has_its_answer() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let mut series = client.start(&request("a", 10)).await.expect("a series");
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..23 {
            let client = client.clone();
            let part = if n % 2 == 0 { "disk" } else { "net" };
            calls.spawn(async move {
                let sampled =
                    client.sample(&Request { part: part.into(), ..Request::default() }).await;
                let text = sampled.expect("a sample").event.sample.expect("one").to_string();
                assert_eq!(text.contains("\"disks\":"), part == "disk", "{text}");
            });
        }
        assert_eq!(calls.join_all().await.len(), 23);
        for seq in 0..3 {
            let told = series.next().await.expect("the daemon is there");
            let Some(Told::Event(event)) = told else { panic!("{told:?}") };
            assert_eq!(event.seq, seq);
        }
    });
}

#[test]
fn a_series_that_is_dropped_is_cancelled() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let series = client.start(&request("a", 10)).await.expect("a series");
        assert_eq!(client.list().await.expect("a list").len(), 1);
        drop(series);
        // Its line went first.
        assert_eq!(client.list().await.expect("a list"), []);
    });
}

#[test]
fn what_is_cancelled_tells_nothing_more() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let _series = client.start(&request("a", 10)).await.expect("a series");
        let which = Cancel { id: Some("a".into()), ..Cancel::default() };
        assert_eq!(client.cancel(&which).await.expect("it is ours"), ["a"]);
        let again = client.cancel(&which).await;
        assert!(matches!(again, Err(Error::Refused(it)) if it.status == Status::NotFound));
    });
}

#[test]
fn a_series_goes_on_after_a_restart_and_tells_of_the_gap() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let mut series = client.start(&request("a", 10)).expect("a series");
    assert!(matches!(series.next(), Some(Ok(Told::Event(_)))));
    service.kill();
    let told = series.find(|told| !matches!(told, Ok(Told::Event(_))));
    assert!(matches!(told, Some(Ok(Told::Away))), "{told:?}");
    service.restart();
    assert!(matches!(series.next(), Some(Ok(Told::Back(_)))));
    assert!(matches!(series.next(), Some(Ok(Told::Event(event))) if event.seq == 0));
    assert_eq!(client.list().expect("a list").len(), 1);
}

#[test]
fn who_ended_while_no_daemon_was_there_is_unknown_and_not_zero() {
    let mut service = Served::start("procfs");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let mut worker = Guarded::sh("read x");
    let pid = worker.pid().0;
    let targets = vec![Target::Pid { pid: pid.into(), node: None }];
    let fields = Some(vec!["cpu_ns".into()]);
    let asked = Request { targets, part: "proc".into(), fields, ..request("a", 20) };
    let mut series = client.start(&asked).expect("a series");
    assert!(matches!(series.next(), Some(Ok(Told::Event(_)))));
    service.kill();
    worker.tell("end");
    worker.0.wait().expect("it ends");
    service.restart();
    let told = series.find(|told| !matches!(told, Ok(Told::Event(_) | Told::Away)));
    let Some(Err(Error::Refused(why))) = told else { panic!("{told:?}") };
    assert_eq!((why.status, why.message), (Status::NotFound, format!("no process {pid}")));
}

#[test]
fn a_daemon_that_stays_away_is_an_error_when_patience_ends() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let client = client.with_patience(Duration::from_millis(50));
    let mut series = client.start(&request("a", 10)).expect("a series");
    service.kill();
    let error = series.find_map(Result::err);
    assert!(matches!(error, Some(Error::Absent { .. })), "{error:?}");
    assert!(series.next().is_none(), "that was its end");
}

#[test]
fn what_runs_on_a_lease_outlives_its_client_and_is_read_later() {
    let service = Served::start("test");
    let client = || blocking::Client::connect_to(service.socket()).expect("a daemon");
    let lease_ns = Some(60_000_000_000);
    let begun = client().start(&Request { lease_ns, ..request("a", 10) }).expect("a series");
    drop(begun);
    let reader = client();
    crate::deadline::until(|| {
        let listed = reader.list().expect("a list");
        listed.iter().any(|it| !it.attached && it.kept > 2).then_some(())
    });
    let mut series = reader.attach("a").expect("it runs");
    assert!(series.kept() > 2);
    assert!(matches!(series.next(), Some(Ok(Told::Event(event))) if event.seq > 0));
}

#[test]
fn a_sample_that_is_read_back_prints_as_it_was() {
    use monitor_format::{Form, Frame, Layout, Paint, Room};
    use monitor_model::scope::Scope;
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/sample.jsonl");
    let golden = std::fs::read_to_string(path).expect("it is there");
    let mut form = Form::Json.writer(Layout::all(Scope::All), Paint::Plain);
    for line in golden.lines() {
        let rates = monitor_protocol::decode::rates(line).expect("a sample");
        let processes = &rates.sample.processes;
        let room = Room { columns: 80, lines: None };
        let mut text = Vec::new();
        let matched = processes.len();
        let events = &rates.sample.events;
        form.write(&Frame { rates: &rates, processes, matched, events, room }, &mut text);
        let read = |text: &[u8]| serde_json::from_slice(text).expect("JSON");
        let (want, got): (serde_json::Value, serde_json::Value) =
            (read(line.as_bytes()), read(&text));
        assert_eq!(want, got);
    }
    assert_eq!(golden.lines().count(), 2);
}

#[test]
fn what_ran_on_a_lease_begins_anew_with_the_next_daemon() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let lease_ns = Some(60_000_000_000);
    let mut series = client.start(&Request { lease_ns, ..request("a", 10) }).expect("a series");
    service.kill();
    assert!(series.any(|told| matches!(told, Ok(Told::Away))));
    service.restart();
    assert!(matches!(series.next(), Some(Ok(Told::Back(_)))));
    assert!(matches!(series.next(), Some(Ok(Told::Event(event))) if event.seq == 0));
    let listed = client.list().expect("a list");
    assert!(listed.iter().any(|it| it.id == "a" && it.lease_left_ns.is_some()), "{listed:?}");
}

#[test]
fn whoever_speaks_another_language_is_no_daemon() {
    use std::io::Write;
    let name = format!("monitor-garbled-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"220 ready\n").expect("he reads");
        stream
    });
    let error = blocking::Client::connect_to(&path).err().expect("it is no daemon");
    assert!(matches!(error, Error::Garbled { .. }), "{error}");
    drop(other.join());
    std::fs::remove_file(&path).expect("it was ours");
}

#[test]
fn an_alarm_arrives_and_a_beat_keeps_it_away() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let params = Heartbeat {
            id: Some("alive".into()),
            pid: None,
            every_ns: 20_000_000,
            drops: 1,
            repeat: false,
            code: Some(7),
            replace: false,
            range: None,
        };
        client.beat().await.expect("it is heard");
        let mut series = client.heartbeat(&params).await.expect("a watch");
        let Ok(Some(Told::Event(event))) = series.next().await else { panic!("an alert") };
        assert_eq!((event.id.as_str(), event.code), ("alive", Some(7)));
        let Some(Alert::Heartbeat { missed_windows, pid, .. }) = event.alert else {
            panic!("of a heart")
        };
        assert_eq!((missed_windows, pid), (2, std::process::id()));
        let own = client.status().await.expect("its own numbers");
        assert_eq!(own.connections, 1);
        assert!(client.probes().await.expect("its probes").service);
    });
}

#[test]
fn a_file_that_does_not_change_is_told_of() {
    let service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let params = FileWatch {
        id: None,
        path: "/proc/version".into(),
        every_ns: 20_000_000,
        drops: 2,
        size: true,
        access: false,
        modify: false,
        repeat: false,
        code: None,
        replace: false,
    };
    let mut series = client.file(&params).expect("a watch");
    let Some(Ok(Told::Event(event))) = series.next() else { panic!("an alert") };
    let Some(Alert::File { path, unchanged, .. }) = event.alert else { panic!("of a file") };
    assert_eq!((path.as_str(), unchanged), ("/proc/version", 2));
}

#[test]
fn a_watched_file_that_is_deleted_is_told_of() {
    let service = Served::start("test");
    let folder = crate::served::Folder::new();
    let path = folder.join("file");
    std::fs::write(&path, "text").expect("a file");
    let mut talk = service.connect();
    let params = serde_json::json!({ "path": path, "every_ns": 20_000_000, "modify": true });
    assert!(talk.result("file", &params)["id"].is_string());
    let alert = |talk: &mut crate::talk::Talk| talk.event()["alert"].clone();
    assert_eq!(alert(&mut talk)["unchanged"], 1);
    std::fs::remove_file(&path).expect("it was there");
    let gone = alert(&mut talk);
    assert_eq!((&gone["missing"], &gone["size"]), (&true.into(), &serde_json::Value::Null));
}
