//! A real Prometheus scrapes the daemon, and latencies arrive as native histograms.

use super::get::Web;
use crate::deadline::until;
use crate::root::privilege::{granted, skip};
use crate::served::{Folder, write};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A Prometheus that ends with the test.
struct Collector {
    child: Child,
    port: u16,
    /// Its files, which are removed with it.
    _folder: Folder,
}

impl Collector {
    /// Starts a Prometheus that scrapes once a second; `None` if it is not installed.
    fn start(test: &str, web: &Web) -> Option<Self> {
        let folder = Folder::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (address, token) = (web.address, web.token_file().display());
        let config = format!(
            "scrape_configs:\n- job_name: monitor\n  scrape_interval: 1s\n  authorization:\n    \
             credentials_file: {token}\n  static_configs:\n  - targets: ['{address}']\n"
        );
        write(&folder.join("prometheus.yml"), &config);
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.arg("--enable-feature=native-histograms").stdin(Stdio::null());
        let log = std::fs::File::create(folder.join("log")).unwrap();
        match command.stderr(log).spawn() {
            Ok(child) => Some(Self { child, port, _folder: folder }),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                skip(test, "needs prometheus: apt-get install prometheus");
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    /// The answer to a query; `None` before it listens.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let path = format!("/api/v1/query?query={query}");
        let head = "Host: localhost\r\nConnection: close";
        write!(stream, "GET {path} HTTP/1.0\r\n{head}\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let json: Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
        Some(json["data"]["result"].as_array()?.clone())
    }

    /// Waits for the first value of a query.
    fn value(&self, query: &str) -> f64 {
        until(|| {
            let found = self.query(query)?;
            found.first()?["value"][1].as_str()?.parse().ok()
        })
    }

    /// The state of its targets, with errors.
    fn targets(&self) -> String {
        let path = format!("http://127.0.0.1:{}/api/v1/targets", self.port);
        let targets = Command::new("curl").arg("-s").arg(path).output();
        targets.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_the_daemon() {
    let web = Web::with("");
    let Some(collector) = Collector::start("prometheus", &web) else { return };
    assert_eq!(collector.value("max_over_time(up[1m])"), 1.0, "{}", collector.targets());
    assert!(collector.value("sum(monitor_group_processes)") >= 1.0);
    assert!(collector.value("monitor_node_mem_total_bytes") > 0.0);
    assert_eq!(collector.value("monitor_groups_limit"), 200.0);
}

#[test]
fn root_latencies_arrive_as_native_histograms() {
    if !granted("root_latencies_arrive_as_native_histograms") {
        return;
    }
    let config = "[metrics]\nhistograms = [\"run-queue\"]\n";
    let web = Web::reading(config, "ebpf");
    let Some(collector) = Collector::start("native-prometheus", &web) else { return };
    let name = "monitor_group_run_queue_latency_seconds";
    let count = collector.value(&format!("histogram_count(sum({name}))%3E100"));
    let median = collector.value(&format!("histogram_quantile(0.5,sum({name}))"));
    assert!(count > 100.0 && median > 0.0 && median < 1.0, "{count} {median}");
}
