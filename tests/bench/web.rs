//! The costs of the HTTP listener with 1,000 processes: a scrape of the metrics beside that of
//! process-exporter, and ten viewers of the page.

use crate::load::{Sleepers, processes};
use crate::peers::exporter_ms;
use crate::program::Program;
use crate::scrape::free_port;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const SCRAPES: u32 = 20;
const VIEWERS: usize = 10;
/// Time until the first samples are sent.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(15);

/// Runs both measurements.
pub fn run() {
    let _sleepers = Sleepers::up_to(1000);
    let daemon = Daemon::start();
    println!("  {} processes", processes());
    scrapes(&daemon);
    viewers(&daemon);
}

struct Daemon {
    program: Program,
    folder: PathBuf,
    port: u16,
}

impl Daemon {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("monitor-bench-web-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let port = free_port().unwrap();
        let config = folder.join("monitor.toml");
        std::fs::write(&config, format!("[http]\nlisten = \"127.0.0.1:{port}\"\n")).unwrap();
        let mut command = Command::new(MONITOR);
        command.arg("serve").arg("--socket").arg(folder.join("socket")).arg("--config").arg(config);
        let program = Program::start(&mut command).unwrap();
        let daemon = Self { program, folder, port };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the daemon does not start");
            sleep(Duration::from_millis(10));
        }
        daemon
    }

    /// Requests a path with the token.
    fn request(&self, path: &str, accept: &str) -> TcpStream {
        let token = std::fs::read_to_string(self.folder.join("http.token")).unwrap();
        let token = token.trim();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        stream
    }

    fn percent(&self, measured: Duration) -> f64 {
        let (before, start) = (self.program.cpu_ns(), Instant::now());
        sleep(measured);
        (self.program.cpu_ns() - before) / start.elapsed().as_nanos() as f64 * 100.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const PROTOBUF: &str = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited";

fn scrapes(daemon: &Daemon) {
    let mut text_ms = 0.0;
    for (what, accept) in [
        ("a scrape as text", "text/plain"),
        ("as OpenMetrics", "application/openmetrics-text"),
        ("as protobuf", PROTOBUF),
    ] {
        let mut bytes = Vec::new();
        let mut scrape = || {
            bytes.clear();
            daemon.request("/metrics", accept).read_to_end(&mut bytes).unwrap();
        };
        scrape();
        let before = daemon.program.cpu_ns();
        (0..SCRAPES).for_each(|_| scrape());
        let ms = (daemon.program.cpu_ns() - before) / 1e6 / f64::from(SCRAPES);
        line(what, ms, "ms CPU", Bar::AtMost(10.0));
        line("its length", bytes.len() as f64 / 1e3, "kB", Bar::None);
        if accept == "text/plain" {
            text_ms = ms;
        }
    }
    match exporter_ms() {
        Ok(theirs) => {
            line("process-exporter by name", theirs, "ms CPU", Bar::None);
            line("ratio to process-exporter", text_ms / theirs, "x", Bar::AtMost(0.1));
        }
        Err(why) => println!("  process-exporter is not measured: {why}"),
    }
}

fn viewers(daemon: &Daemon) {
    let idle = daemon.percent(MEASURED);
    line("the daemon without viewers", idle, "% core", Bar::None);
    let mut watched = Vec::new();
    for viewers in [1, VIEWERS] {
        let streams: Vec<_> = (0..viewers).map(|_| daemon.request("/feed", "*/*")).collect();
        let ends: Vec<_> = streams.iter().map(|it| it.try_clone().unwrap()).collect();
        let readers: Vec<_> = streams.into_iter().map(|it| spawn(move || read(it))).collect();
        sleep(WARM_UP);
        let used = daemon.percent(MEASURED);
        for end in ends {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
        let bytes: usize = readers.into_iter().map(|it| it.join().unwrap()).sum();
        let second = bytes as f64 / viewers as f64 / (MEASURED + WARM_UP).as_secs_f64();
        let bar = if viewers == VIEWERS { Bar::AtMost(2.0) } else { Bar::None };
        line(&format!("{viewers} viewers of the page at 1 Hz"), used, "% core", bar);
        line("sent to each per second", second / 1e3, "kB", Bar::None);
        watched.push(used);
    }
    line("ten compared with one", watched[1] / watched[0], "x", Bar::None);
}

/// Reads to the end; returns the number of bytes.
fn read(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes.len()
}
