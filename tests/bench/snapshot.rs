//! One reading of all processes: the task iterator, its minimum, and `/proc` read in three ways.

use crate::load::{Sleepers, pids, processes};
use crate::measure::medians;
use crate::procfs::pread;
use crate::verdict::{Bar, line};
use aya::Btf;
use aya::programs::Iter;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::read_spec::ReadSpec;
use monitor_sys::fd_limit;
use std::fs::File;
use std::io::Read as _;

const FILES: [&str; 3] = ["stat", "status", "io"];

/// Prints CPU microseconds per process, at 1,000 processes; reading includes decoding.
pub fn run() {
    let _sleepers = Sleepers::up_to(1000);
    let mut empty = Empty::load();
    let mut ebpf = Ebpf::open(&[], 0).unwrap();
    let want = ReadSpec { processes: true, ..ReadSpec::default() };
    // With too few descriptors the loop below would read fewer files.
    let descriptors = fd_limit::raise().unwrap_or(u64::MAX);
    assert!(descriptors > 4000, "{descriptors} open files are too few for this bench");
    let cached: Vec<_> = pids().flat_map(open).collect();
    let [mut one, mut other] = [[0; 4096]; 2];
    let got = medians(
        31,
        &mut [
            ("empty iterator", Box::new(|| empty.pass())),
            ("eBPF reading", Box::new(|| drop(ebpf.read(&want).unwrap()))),
            ("raw /proc: open, read, close", Box::new(|| raw(&mut one))),
            ("raw /proc: cached descriptors, pread", Box::new(|| pread(&cached, &mut other))),
            ("procfs crate", Box::new(procfs_crate)),
        ],
    );
    let n = processes() as f64;
    for (what, taken) in &got {
        line(&format!("{what}, per process"), taken / n, "us", Bar::None);
    }
    let [empty, ebpf, raw, _, procfs] = [0, 1, 2, 3, 4].map(|index: usize| got[index].1);
    line("eBPF reading / empty iterator", ebpf / empty, "x", Bar::AtMost(4.0));
    line("eBPF reading / raw /proc", ebpf / raw, "x", Bar::AtMost(0.1));
    line("eBPF reading / procfs crate", ebpf / procfs, "x", Bar::AtMost(0.04));
}

/// The iterator program that reads nothing.
pub struct Empty(aya::Ebpf);

impl Empty {
    /// Loads it.
    pub fn load() -> Self {
        let object = aya::include_bytes_aligned!("../../monitor-ebpf/objects/snapshot.o");
        let mut ebpf = aya::EbpfLoader::new().allow_unsupported_maps().load(object).unwrap();
        let program: &mut Iter = ebpf.program_mut("empty").unwrap().try_into().unwrap();
        program.load("task", &Btf::from_sys_fs().unwrap()).unwrap();
        Self(ebpf)
    }

    /// Iterates over all tasks.
    pub fn pass(&mut self) {
        let program: &mut Iter = self.0.program_mut("empty").unwrap().try_into().unwrap();
        let link = program.attach().and_then(|id| program.take_link(id)).unwrap();
        let mut nothing = Vec::new();
        link.into_file().unwrap().read_to_end(&mut nothing).unwrap();
    }
}

/// Opens the three files; none if the process has exited.
fn open(pid: u32) -> impl Iterator<Item = File> {
    FILES.into_iter().filter_map(move |file| File::open(format!("/proc/{pid}/{file}")).ok())
}

fn raw(buffer: &mut [u8]) {
    for mut file in pids().flat_map(open) {
        let _ = file.read(buffer);
    }
}

fn procfs_crate() {
    for process in procfs::process::all_processes().unwrap().flatten() {
        let _ = (process.stat(), process.status(), process.io());
    }
}
