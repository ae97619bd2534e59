//! Recording 1,000 processes at 1 Hz, 15 % of them active: CPU, bytes and seek time, beside other
//! recorders.

use crate::load::{Sleepers, processes};
use crate::measure::median;
use crate::peers::recorders;
use crate::program::Program;
use crate::verdict::{Bar, line};
use crate::watch::{MONITOR, WARM_UP};
use monitor_model::id::Ns;
use monitor_recording::{Recording, Span};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Environment variable that makes this program an active process.
const WORKER: &str = "MONITOR_BENCH_ACTIVE";
const ACTIVE: usize = 150;
/// Default recording time, overridden by `MONITOR_BENCH_SECONDS`: a little more than one block.
const SECONDS: u64 = 75;

/// Runs an active process: half a millisecond of work and a small write, twice a second. Returns
/// false if this process is not one.
pub fn work() -> bool {
    if std::env::var_os(WORKER).is_none() {
        return false;
    }
    loop {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(500) {
            std::hint::black_box(vec![1_u8; 4096]);
        }
        let _ = std::fs::write("/dev/null", [0; 4096]);
        sleep(Duration::from_millis(500));
    }
}

struct Workers(Vec<Child>);

impl Workers {
    fn start() -> Self {
        let start = |_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.env(WORKER, "1").stdin(Stdio::null()).spawn().unwrap()
        };
        Self((0..ACTIVE).map(start).collect())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Prints CPU, bytes and seek times, then the other recorders.
pub fn run() {
    let _workers = Workers::start();
    let _sleepers = Sleepers::up_to(1000);
    let file = PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/record.mon"));
    let n = processes();
    let percent = recorded(&file);
    line(&format!("recording {n} processes, {ACTIVE} active"), percent, "% core", Bar::AtMost(0.5));
    size(&file);
    seeks(&file);
    recorders();
    let _ = std::fs::remove_file(file);
}

/// CPU in percent of a core, from the second reading on.
fn recorded(file: &Path) -> f64 {
    let seconds = std::env::var("MONITOR_BENCH_SECONDS").ok().and_then(|it| it.parse().ok());
    let mut command = Command::new(MONITOR);
    let program = Program::start(command.args(["record", "--local", "--force"]).arg(file)).unwrap();
    sleep(WARM_UP);
    let (before, start) = (program.cpu_ns(), Instant::now());
    sleep(Duration::from_secs(seconds.unwrap_or(SECONDS)));
    let used = program.cpu_ns() - before;
    let percent = used / start.elapsed().as_nanos() as f64 * 100.0;
    line("its resident memory", program.bytes("VmRSS:") / 1e6, "MB", Bar::None);
    let pid = i32::try_from(program.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // It finishes its last block.
    while Recording::open(file).unwrap().is_open() {
        sleep(Duration::from_millis(50));
    }
    percent
}

fn size(file: &Path) {
    let Span { first, last, samples } = Recording::open(file).unwrap().span().unwrap();
    let bytes = std::fs::metadata(file).unwrap().len() as f64;
    let seconds = last.boot.since(first.boot).seconds();
    let rate = bytes / 1024.0 / seconds;
    line("bytes of it, after compaction", rate, "KiB/s", Bar::AtMost(10.0));
    line("samples in it", samples as f64, "", Bar::None);
}

/// Measures seeks to many times of an open file.
fn seeks(file: &Path) {
    let mut recording = Recording::open(file).unwrap();
    let Span { first, last, .. } = recording.span().unwrap();
    let whole = last.unix.since(first.unix).0;
    let taken: Vec<_> = (0..51_u64)
        .map(|at| {
            let start = Instant::now();
            recording.seek(Ns(first.unix.0 + whole / 51 * (at * 23 % 51))).unwrap();
            let _ = recording.next().unwrap().unwrap();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let longest = taken.iter().copied().fold(0.0, f64::max);
    line("seek to a time, median", median(taken), "ms", Bar::None);
    line("seek to a time, longest", longest, "ms", Bar::AtMost(100.0));
}
