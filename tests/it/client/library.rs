//! The client library, against a daemon with fixed values.

use crate::root::workload::Guarded;
use crate::served::Served;
use monitor_client::{Client, Error};
use monitor_client::{SeriesItem, blocking};
use monitor_model::request::MonitorRequest;
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

fn request(id: &str, every_ms: u64) -> MonitorRequest {
    MonitorRequest {
        id: Some(id.into()),
        part: "node".into(),
        fields: Some(vec!["load1".into()]),
        every_ns: Some(every_ms * 1_000_000),
        ..MonitorRequest::default()
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
fn a_refusal_has_its_status_and_its_message() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let targets = vec![Target::Pid { pid: 9, node: None }];
        let got = client.sample(&MonitorRequest { targets, ..MonitorRequest::default() }).await;
        let Err(Error::Refused(refusal)) = got else { panic!("{got:?}") };
        assert_eq!((refusal.status, &*refusal.message), (Status::NotFound, "no process 9"));
    });
}

#[test]
fn an_absent_daemon_is_reported_with_the_path() {
    let got = blocking::Client::connect_to(std::path::Path::new("/no/such.sock")).err();
    let text = got.expect("no daemon listens there").to_string();
    assert!(text.starts_with("no daemon answers at /no/such.sock: No such file"), "{text}");
}

#[test]
fn concurrent_calls_share_a_connection_and_each_gets_its_reply() {
    let service = Served::start("test");
    wait(async {
        let client = Client::connect_to(service.socket()).await.expect("a daemon");
        let mut series = client.start(&request("a", 10)).await.expect("a series");
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..23 {
            let client = client.clone();
            let part = if n % 2 == 0 { "disk" } else { "net" };
            calls.spawn(async move {
                let sampled = client
                    .sample(&MonitorRequest { part: part.into(), ..MonitorRequest::default() })
                    .await;
                let text = sampled.expect("a sample").event.sample.expect("one").to_string();
                assert_eq!(text.contains("\"disks\":"), part == "disk", "{text}");
            });
        }
        assert_eq!(calls.join_all().await.len(), 23);
        for seq in 0..3 {
            let item = series.next().await.expect("the daemon is there");
            let Some(SeriesItem::Event(event)) = item else { panic!("{item:?}") };
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
        // The cancel was sent before `list`.
        assert_eq!(client.list().await.expect("a list"), []);
    });
}

#[test]
fn a_cancelled_monitor_sends_no_further_events() {
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
fn a_series_continues_after_a_restart_and_reports_the_gap() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let mut series = client.start(&request("a", 10)).expect("a series");
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Event(_)))));
    service.kill();
    let item = series.find(|item| !matches!(item, Ok(SeriesItem::Event(_))));
    assert!(matches!(item, Some(Ok(SeriesItem::Disconnected))), "{item:?}");
    service.restart();
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Reconnected(_)))));
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Event(event))) if event.seq == 0));
    assert_eq!(client.list().expect("a list").len(), 1);
}

#[test]
fn a_process_that_ended_without_a_daemon_is_unknown_not_zero() {
    let mut service = Served::start("procfs");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let mut worker = Guarded::sh("read x");
    let pid = worker.pid().0;
    let targets = vec![Target::Pid { pid: pid.into(), node: None }];
    let fields = Some(vec!["cpu_ns".into()]);
    let asked = MonitorRequest { targets, part: "proc".into(), fields, ..request("a", 20) };
    let mut series = client.start(&asked).expect("a series");
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Event(_)))));
    service.kill();
    worker.send_line("end");
    worker.0.wait().expect("it ends");
    service.restart();
    let item =
        series.find(|item| !matches!(item, Ok(SeriesItem::Event(_) | SeriesItem::Disconnected)));
    let Some(Err(Error::Refused(why))) = item else { panic!("{item:?}") };
    assert_eq!((why.status, why.message), (Status::NotFound, format!("no process {pid}")));
}

#[test]
fn a_daemon_that_does_not_come_back_is_an_error_after_the_timeout() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let client = client.with_reconnect_timeout(Duration::from_millis(50));
    let mut series = client.start(&request("a", 10)).expect("a series");
    service.kill();
    let error = series.find_map(Result::err);
    assert!(matches!(error, Some(Error::Unreachable { .. })), "{error:?}");
    assert!(series.next().is_none(), "the series has ended");
}

#[test]
fn a_leased_monitor_outlives_its_client_and_can_be_attached() {
    let service = Served::start("test");
    let client = || blocking::Client::connect_to(service.socket()).expect("a daemon");
    let lease_ns = Some(60_000_000_000);
    let begun = client().start(&MonitorRequest { lease_ns, ..request("a", 10) }).expect("a series");
    drop(begun);
    let reader = client();
    crate::deadline::until(|| {
        let listed = reader.list().expect("a list");
        listed.iter().any(|it| !it.attached && it.kept > 2).then_some(())
    });
    let mut series = reader.attach("a").expect("it runs");
    assert!(series.kept() > 2);
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Event(event))) if event.seq > 0));
}

#[test]
fn a_decoded_sample_prints_as_before() {
    use monitor_format::{Frame, Layout, OutputFormat, Paint, Viewport};
    use monitor_model::scope::Scope;
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/sample.jsonl");
    let golden = std::fs::read_to_string(path).expect("it is there");
    let mut form = OutputFormat::Json.writer(Layout::all(Scope::All), Paint::Plain);
    for line in golden.lines() {
        let rates = monitor_protocol::decode::rates(line).expect("a sample");
        let processes = &rates.sample.processes;
        let room = Viewport { columns: 80, lines: None };
        let mut text = Vec::new();
        let matched = processes.len();
        let events = &rates.sample.events;
        form.write(&Frame { rates: &rates, processes, matched, events, viewport: room }, &mut text);
        let read = |text: &[u8]| serde_json::from_slice(text).expect("JSON");
        let (want, got): (serde_json::Value, serde_json::Value) =
            (read(line.as_bytes()), read(&text));
        assert_eq!(want, got);
    }
    assert_eq!(golden.lines().count(), 2);
}

#[test]
fn a_leased_series_is_restarted_with_the_next_daemon() {
    let mut service = Served::start("test");
    let client = blocking::Client::connect_to(service.socket()).expect("a daemon");
    let lease_ns = Some(60_000_000_000);
    let mut series =
        client.start(&MonitorRequest { lease_ns, ..request("a", 10) }).expect("a series");
    service.kill();
    assert!(series.any(|item| matches!(item, Ok(SeriesItem::Disconnected))));
    service.restart();
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Reconnected(_)))));
    assert!(matches!(series.next(), Some(Ok(SeriesItem::Event(event))) if event.seq == 0));
    let listed = client.list().expect("a list");
    assert!(listed.iter().any(|it| it.id == "a" && it.lease_left_ns.is_some()), "{listed:?}");
}

#[test]
fn a_server_of_another_protocol_is_refused() {
    use std::io::Write;
    let name = format!("monitor-garbled-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"220 ready\n").expect("the client reads");
        stream
    });
    let error = blocking::Client::connect_to(&path).err().expect("another protocol");
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    drop(other.join());
    std::fs::remove_file(&path).expect("it was ours");
}

#[test]
fn an_alert_arrives_and_heartbeats_prevent_it() {
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
        client.send_heartbeat().await.expect("the heartbeat is accepted");
        let mut series = client.heartbeat(&params).await.expect("a watch");
        let Ok(Some(SeriesItem::Event(event))) = series.next().await else { panic!("an alert") };
        assert_eq!((event.id.as_str(), event.code), ("alive", Some(7)));
        let Some(Alert::Heartbeat { missed_windows, pid, .. }) = event.alert else {
            panic!("a heartbeat alert")
        };
        assert_eq!((missed_windows, pid), (2, std::process::id()));
        let own = client.status().await.expect("its statistics");
        assert_eq!(own.connections, 1);
        assert!(client.probes().await.expect("its probes").service);
    });
}

#[test]
fn an_unchanged_file_sends_an_alert() {
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
    let Some(Ok(SeriesItem::Event(event))) = series.next() else { panic!("an alert") };
    let Some(Alert::File { path, unchanged, .. }) = event.alert else { panic!("a file alert") };
    assert_eq!((path.as_str(), unchanged), ("/proc/version", 2));
}

#[test]
fn a_deleted_file_sends_an_alert() {
    let service = Served::start("test");
    let folder = crate::served::Folder::new();
    let path = folder.join("file");
    std::fs::write(&path, "text").expect("a file");
    let mut talk = service.connect();
    let params = serde_json::json!({ "path": path, "every_ns": 20_000_000, "modify": true });
    assert!(talk.result("file", &params)["id"].is_string());
    let alert = |talk: &mut crate::socket_session::SocketSession| talk.event()["alert"].clone();
    assert_eq!(alert(&mut talk)["unchanged"], 1);
    std::fs::remove_file(&path).expect("it was there");
    let gone = alert(&mut talk);
    assert_eq!((&gone["missing"], &gone["size"]), (&true.into(), &serde_json::Value::Null));
}
