//! Pushed metrics: a fake collector decodes what it receives.

use super::get::Web;
use crate::deadline::{deadline, until};
use crate::served::Served;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A collector that sends given answers.
pub struct Collector {
    listener: TcpListener,
}

impl Collector {
    pub fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    pub fn config(&self) -> String {
        let address = self.listener.local_addr().unwrap();
        format!("[otlp]\nendpoint = \"http://{address}\"\nevery = \"50ms\"\n")
    }

    /// Takes a push, and answers it.
    pub fn take(&self, answer: &str) -> (String, Value) {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(deadline())).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|it| it.split('\r').next());
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
        if head.contains("content-encoding: gzip\r\n") {
            let compressed = std::mem::take(&mut body);
            let _bytes = GzDecoder::new(&*compressed).read_to_end(&mut body).unwrap();
            assert!(compressed.len() < body.len() / 4, "{} of {}", compressed.len(), body.len());
        }
        (head, serde_json::from_slice(&body).unwrap())
    }
}

/// The answer to an accepted push.
pub const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// The value of an attribute in a list.
fn attribute<'a>(list: &'a Value, key: &str) -> Option<&'a str> {
    let found = list.as_array()?.iter().find(|it| it["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

#[test]
fn the_time_that_pushes_take_is_a_part_of_its_own() {
    let collector = Collector::new();
    let served = Served::with(&collector.config());
    let parts = until(|| {
        let _push = collector.take(GOOD);
        let status = served.status();
        let part = |name: &str| status["cpu_parts"][name].as_u64().filter(|ns| *ns > 0);
        let used = [part("pushes")?, part("readings")?, part("connections")?];
        Some((used, status["cpu_ns"].as_u64().unwrap(), part("scrapes"), part("samples")))
    });
    let (used, all, scrapes, samples) = parts;
    assert!(used.iter().sum::<u64>() <= all, "{parts:?}");
    assert_eq!((scrapes, samples), (None, None), "nothing was scraped, and no monitor has run");
}

#[test]
fn a_service_above_its_budget_leaves_out_most_pushes_and_says_so() {
    let collector = Collector::new();
    let budget = "[budget]\nwindow = \"50ms\"\nshare = \"0.001%\"\n";
    let served = Served::with(&(collector.config() + budget));
    until(|| {
        let _push = collector.take(GOOD);
        (served.status()["budget"]["shed"] == Value::from(["pushes"].as_slice())).then_some(())
    });
}

#[test]
fn a_collector_gets_all_metrics_with_the_names_of_the_conventions() {
    let collector = Collector::new();
    let served = Served::with(&collector.config());
    let (head, body) = collector.take(GOOD);
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"));
    let resource = &body["resourceMetrics"][0];
    assert_eq!(attribute(&resource["resource"]["attributes"], "service.name"), Some("monitor"));
    assert!(attribute(&resource["resource"]["attributes"], "host.name").is_some());
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let named = |name: &str| metrics.iter().find(|it| it["name"] == name).expect(name);
    let cpu = named("process.cpu.time");
    assert_eq!((&cpu["unit"], &cpu["sum"]["isMonotonic"]), (&"s".into(), &true.into()));
    let points = cpu["sum"]["dataPoints"].as_array().unwrap();
    let user = points.iter().find(|it| attribute(&it["attributes"], "cpu.mode") == Some("user"));
    let user = user.unwrap();
    assert_eq!(attribute(&user["attributes"], "process.command"), Some("test-stats"));
    assert_eq!(user["asDouble"], 1000.0);
    for name in ["system.disk.io", "system.network.io", "monitor.own.cpu", "process.memory.usage"] {
        let _ = named(name);
    }
    let _again = collector.take(GOOD);
    until(|| (served.status()["otlp"]["pushed"].as_u64()? >= 1).then_some(()));
}

#[test]
fn a_collector_can_get_metrics_that_are_compressed() {
    let collector = Collector::new();
    let served = Served::with(&(collector.config() + "compression = \"gzip\"\n"));
    let (head, body) = collector.take(GOOD);
    assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let names: Vec<_> = metrics.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.iter().any(|it| *it == "process.cpu.time"), "{names:?}");
    let _again = collector.take(GOOD);
    until(|| (served.status()["otlp"]["pushed"].as_u64()? >= 1).then_some(()));
}

#[test]
fn a_failed_push_is_counted_and_reported_and_the_next_one_is_tried() {
    let collector = Collector::new();
    let served = Served::with(&collector.config());
    let wait_for_error = |want: &str| {
        until(|| served.status()["otlp"]["trouble"].as_str()?.contains(want).then_some(()));
    };
    let _ = collector.take("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    wait_for_error("the collector answered 503");
    let part = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too many"}}"#;
    let _ =
        collector.take(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{part}", part.len()));
    wait_for_error("rejected 7 points: too many");
    let _ = collector.take(GOOD);
    let otlp = until(|| {
        let otlp = served.status()["otlp"].take();
        (otlp["pushed"].as_u64()? > 0).then_some(otlp)
    });
    assert!(otlp["failed"].as_u64().unwrap() >= 2, "{otlp}");
    assert!(served.log().contains("metrics are not pushed: the collector answered 503"));
}

#[test]
fn an_invalid_endpoint_is_reported_with_its_line() {
    let web = Web::with("");
    std::fs::write(web.served.config(), "[otlp]\nendpoint = \"https://far\"\n").unwrap();
    let mut command = crate::served::monitor();
    let output = command.args(["config", "check"]).arg(web.served.config()).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(
        printed.contains(":2: otlp.endpoint: \"https://far\": TLS is not supported"),
        "{printed}"
    );
    assert_eq!(output.status.code(), Some(2));
    // The listener is not affected.
    assert!(TcpStream::connect(web.address).is_ok());
}
