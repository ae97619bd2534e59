//! The procfs backend, compared with the minimum cost of reading the same files: a loop of `pread`
//! of stat, status and io through open descriptors, without parsing.

use crate::load::{Sleepers, Threads, ids, pids, processes};
use crate::measure::medians;
use crate::verdict::{Bar, line};
use monitor_backend::Backend as _;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::id::Pid;
use monitor_model::read_spec::ReadSpec;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const FILES: [&str; 3] = ["stat", "status", "io"];
const THREADS: usize = 1000;

/// Prints CPU microseconds per process or thread.
pub fn run() {
    let processes_only = ReadSpec { processes: true, ..ReadSpec::default() };
    // `Procfs::open` raises the limit of open files, also for the bare loop.
    {
        let _sleepers = Sleepers::up_to(1000);
        let backend = Procfs::open(Root::default()).unwrap();
        let bare = pids().flat_map(|pid| open(&format!("/proc/{pid}"))).collect();
        compare(("process", processes()), backend, &processes_only, bare, Bar::AtMost(1.3));
    }
    let _threads = Threads::start(THREADS);
    let own = std::process::id();
    let backend = Procfs::open(Root::default()).unwrap();
    let tasks = format!("/proc/{own}/task");
    let bare = ids(&tasks).flat_map(|tid| open(&format!("{tasks}/{tid}"))).collect();
    let want = ReadSpec { threads: true, pids: Some(vec![Pid(own)]), ..processes_only };
    compare(("thread", THREADS), backend, &want, bare, Bar::None);
}

/// Measures both in turn. The backend reads once before, to open its files.
fn compare(of: (&str, usize), mut backend: Procfs, want: &ReadSpec, bare: Vec<File>, bar: Bar) {
    let (what, n) = of;
    let _opened = backend.read(want).unwrap();
    let mut buffer = [0; 4096];
    let taken = medians(
        61,
        &mut [
            ("bare loop of pread", Box::new(|| pread(&bare, &mut buffer))),
            ("procfs backend", Box::new(|| drop(backend.read(want).unwrap()))),
        ],
    );
    for (name, taken) in &taken {
        line(&format!("{name}, per {what}, {n}"), taken / n as f64, "us", Bar::None);
    }
    line(&format!("procfs backend / bare loop, {what}"), taken[1].1 / taken[0].1, "x", bar);
}

/// Opens the three files; none if the process has exited.
fn open(directory: &str) -> Vec<File> {
    FILES.iter().filter_map(|file| File::open(format!("{directory}/{file}")).ok()).collect()
}

/// Reads each file.
pub fn pread(files: &[File], buffer: &mut [u8]) {
    for file in files {
        let _ = file.read_at(buffer, 0);
    }
}
