//! What following jobs costs the service of a node with 1,000 processes and no job: one service
//! that follows them, and one that does not, at the same time, each with a reading a second.

use crate::load::Sleepers;
use crate::measure::median;
use crate::program::Program;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROCESSES: usize = 1000;
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_secs(4);
/// What a client of each reads.
const WATCH: &str =
    r#"{"id":1,"method":"monitor","params":{"every_ns":1000000000,"fields":["cpu_ns"]}}"#;

/// Prints the ratio.
pub fn run() {
    let _sleepers = Sleepers::up_to(PROCESSES);
    let mut services = ["false", "true"].map(Service::start);
    for service in &mut services {
        service.watch();
    }
    let (mut cpu_ms, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    sleep(ROUND);
    for _ in 0..ROUNDS {
        let before = [0, 1].map(|it| services[it].program.cpu_ns());
        sleep(ROUND);
        let used = [0, 1].map(|it| (services[it].program.cpu_ns() - before[it]) / 1e6);
        ratios.push(used[1] / used[0]);
        cpu_ms.iter_mut().zip(used).for_each(|(all, used)| all.push(used / ROUND.as_secs_f64()));
    }
    let [without, with] = cpu_ms.map(median);
    line("discovery: service without, 1 reading a second", without, "ms/s", Bar::None);
    line("  with jobs.follow", with, "ms/s", Bar::None);
    line("  by that without", median(ratios), "x", Bar::AtMost(1.02));
}

/// A service, and its client.
struct Service {
    program: Program,
    socket: PathBuf,
    config: PathBuf,
    client: Option<UnixStream>,
}

impl Service {
    fn start(follow: &str) -> Self {
        let name = |end: &str| {
            std::env::temp_dir().join(format!("monitor-bench-{}-{follow}{end}", std::process::id()))
        };
        let (socket, config) = (name(".sock"), name(".toml"));
        std::fs::write(&config, format!("[jobs]\nfollow = {follow}\n")).unwrap();
        let mut command = Command::new(MONITOR);
        command.arg("serve").arg("--socket").arg(&socket).arg("--config").arg(&config);
        let program = Program::start(&mut command).unwrap();
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the service does not start");
            sleep(Duration::from_millis(10));
        }
        Self { program, socket, config, client: None }
    }

    /// Begins to read; a thread takes the samples.
    fn watch(&mut self) {
        let mut client = UnixStream::connect(&self.socket).unwrap();
        writeln!(client, "{WATCH}").unwrap();
        let mut samples = BufReader::new(client.try_clone().unwrap());
        let mut first = String::new();
        let _bytes = samples.read_line(&mut first).unwrap();
        assert!(first.contains("\"result\""), "{first}");
        let _ends_with_the_service = std::thread::spawn(move || samples.lines().count());
        self.client = Some(client);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _removed = std::fs::remove_file(&self.config);
    }
}
