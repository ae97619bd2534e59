//! The backend for `/proc` beside the least that reading the same files can cost: a loop of
//! `pread` of stat, status and io through descriptors that are open, which looks at nothing.

use crate::load::{Sleepers, Threads, ids, pids, processes};
use crate::measure::medians;
use crate::verdict::{Bar, line};
use monitor_backend::Backend as _;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::id::Pid;
use monitor_model::want::Want;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const FILES: [&str; 3] = ["stat", "status", "io"];
const THREADS: usize = 1000;

/// CPU microseconds for each process or thread.
pub fn run() {
    let processes_only = Want { processes: true, ..Want::default() };
    // `Procfs::open` raises the limit of open files for the bare loop too.
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
    let want = Want { threads: true, pids: Some(vec![Pid(own)]), ..processes_only };
    compare(("thread", THREADS), backend, &want, bare, Bar::None);
}

/// Both in turn; the backend reads a first time before, as nobody opens anything twice.
fn compare(of: (&str, usize), mut backend: Procfs, want: &Want, bare: Vec<File>, bar: Bar) {
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

/// The three files; what has ended has none.
fn open(directory: &str) -> Vec<File> {
    FILES.iter().filter_map(|file| File::open(format!("{directory}/{file}")).ok()).collect()
}

/// Reads each of them.
pub fn pread(files: &[File], buffer: &mut [u8]) {
    for file in files {
        let _ = file.read_at(buffer, 0);
    }
}
