//! A rank of a job, and the job: this program, started by Hydra.

use crate::watch::MONITOR;
use monitor_control::process_ref::ProcessRef;
use monitor_model::{Identity, Pid};
use monitor_sys::mmapped_array::MmappedArray;
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Environment variable that makes this program a rank: what it does.
const VARIABLE: &str = "MONITOR_BENCH_RANK";
/// The file with a word for each rank.
const CLOCKS: &str = "MONITOR_BENCH_CLOCKS";
const STARTER: &str = "/usr/bin/mpiexec.mpich";
/// Frames below the function in which a rank waits or spins.
const DEPTH: usize = 20;

/// What ranks do.
#[derive(Clone, Copy)]
pub enum RankWork {
    /// Wait.
    Sleep,
    /// Compute.
    Spin,
    /// Write the time into their word, again and again.
    Clock,
}

impl RankWork {
    const fn word(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
            Self::Clock => "clock",
        }
    }
}

/// A running job, ended on drop.
pub struct Job {
    launcher: Child,
    clocks: PathBuf,
    file: File,
    n: usize,
}

/// Whether Hydra is here.
pub fn is_possible() -> bool {
    Path::new(STARTER).exists()
}

impl Job {
    /// Starts ranks, and waits until all of them do their work.
    pub fn start(n: usize, work: RankWork) -> Self {
        let clocks = std::env::temp_dir().join(format!("monitor-bench-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&clocks);
        let file = file.unwrap();
        file.set_len(8 * n as u64).unwrap();
        let mut command = Command::new(STARTER);
        command.args(["-n", &n.to_string()]).arg(std::env::current_exe().unwrap());
        command.env(VARIABLE, work.word()).env(CLOCKS, &clocks);
        // Hydra explains its end on standard output.
        let launcher = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let job = Self { launcher, clocks, file, n };
        let start = Instant::now();
        while job.clocks().contains(&0) {
            assert!(start.elapsed() < Duration::from_secs(60), "the ranks do not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        job
    }

    /// What names it.
    pub fn name(&self) -> String {
        self.launcher.id().to_string()
    }

    /// The word of each rank: the last time that it wrote.
    pub fn clocks(&self) -> Vec<u64> {
        let words = MmappedArray::map(self.file.as_fd(), self.n).unwrap();
        (0..self.n).map(|rank| words.at(rank).unwrap().load(Ordering::Relaxed)).collect()
    }

    /// The processes of its ranks.
    pub fn processes(&self) -> Vec<Identity> {
        let mut command = Command::new(MONITOR);
        let output = command.args(["job", "show", &self.name(), "--mpir"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let pids = text.lines().filter_map(|it| it.rsplit('\t').next()?.parse().ok());
        let all: Vec<_> = pids.map(|pid| ProcessRef::open_current(Pid(pid)).unwrap().id).collect();
        assert_eq!(all.len(), self.n, "{text}");
        all
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let mut command = Command::new(MONITOR);
        let _ = command.args(["job", "end", &self.name(), "--kill"]).stdout(Stdio::null()).status();
        let _ = self.launcher.wait();
        let _ = std::fs::remove_file(&self.clocks);
    }
}

/// If this program was started as a rank: works until it is ended.
pub fn serve_as_rank() -> bool {
    let Ok(work) = std::env::var(VARIABLE) else { return false };
    let clocks = std::env::var_os(CLOCKS).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(clocks).unwrap();
    let rank: usize = std::env::var("PMI_RANK").unwrap().parse().unwrap();
    let words = MmappedArray::map(file.as_fd(), rank + 1).unwrap();
    let word = words.at(rank).unwrap();
    word.store(monotonic_ns(), Ordering::Relaxed);
    below(DEPTH, &|| match work.as_str() {
        "clock" => loop {
            word.store(monotonic_ns(), Ordering::Relaxed);
        },
        "spin" => loop {
            black_box(rank);
        },
        _ => loop {
            std::thread::sleep(Duration::from_secs(1000));
        },
    });
    true
}

/// Calls the work below this number of frames of its own.
#[inline(never)]
fn below(depth: usize, work: &dyn Fn()) {
    match depth {
        0 => work(),
        _ => below(black_box(depth - 1), work),
    }
    // No tail call.
    black_box(depth);
}

/// `CLOCK_MONOTONIC`, which all processes share.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
