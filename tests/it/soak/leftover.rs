//! What a process of the monitor may leave: objects in the kernel, processes, files.

use crate::deadline::until;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What takes longer than this after a round is printed.
pub const SLOW: Duration = Duration::from_secs(1);

/// The programs, links and maps that a process has open, by kind and id.
pub struct KernelObjects(BTreeSet<(&'static str, u32)>);

impl KernelObjects {
    /// Those of a process; none if it has ended.
    pub fn from_process(pid: u32) -> Self {
        let mut all = BTreeSet::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            for kind in ["prog_id:", "link_id:", "map_id:"] {
                let id = text.lines().find_map(|it| it.strip_prefix(kind)?.trim().parse().ok());
                all.extend(id.map(|id| (kind, id)));
            }
        }
        Self(all)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until the kernel has none of them.
    #[track_caller]
    pub fn are_gone(&self) {
        until_none("objects", || &self.0 & &loaded());
    }
}

fn loaded() -> BTreeSet<(&'static str, u32)> {
    // What is removed meanwhile is skipped.
    let programs = aya::programs::loaded_programs().flatten().map(|it| ("prog_id:", it.id()));
    let links = aya::programs::loaded_links().flatten().map(|it| ("link_id:", it.id()));
    let maps = aya::maps::loaded_maps().flatten().map(|it| ("map_id:", it.id()));
    programs.chain(links).chain(maps).collect()
}

/// The processes whose program is in this folder.
pub fn processes(folder: &Path) -> BTreeSet<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        // That of an ended process cannot be read.
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it.starts_with(folder))
    };
    pids.filter(is_ours).collect()
}

/// These processes with their states and arguments.
pub fn described(pids: &BTreeSet<u32>) -> BTreeSet<String> {
    let read = |pid, name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let state = |pid| read(pid, "stat").rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned());
    let describe = |pid| {
        let arguments = read(pid, "cmdline").replace('\0', " ");
        format!("{pid} {} {arguments}", state(pid).unwrap_or_default())
    };
    pids.iter().map(|pid| describe(*pid)).collect()
}

/// The threads of a process: state, tracer, signals, and where each is in the kernel.
pub fn threads(pid: u32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let describe = |task: fs::DirEntry| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let wanted = ["State", "TracerPid", "SigPnd", "ShdPnd", "SigBlk"];
        let status = read("status").replace('\t', "");
        let lines = status.lines().filter(|line| wanted.iter().any(|it| line.starts_with(it)));
        let tid = task.file_name();
        format!("{tid:?} {} {}", lines.collect::<Vec<_>>().join(" "), read("wchan"))
    };
    tasks.map(describe).collect()
}

/// The files below a folder.
pub fn files(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let _new = all.insert(entry.path().display().to_string());
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    all
}

/// Waits until there is none of these; prints those that there still are, if that fails.
#[track_caller]
pub fn until_none<T: std::fmt::Debug>(what: &'static str, mut look: impl FnMut() -> BTreeSet<T>) {
    struct Left<T: std::fmt::Debug>(&'static str, BTreeSet<T>);
    impl<T: std::fmt::Debug> Drop for Left<T> {
        fn drop(&mut self) {
            if !self.1.is_empty() {
                println!("soak: {} left: {:?}", self.0, self.1);
            }
        }
    }
    let (mut left, mut last) = (Left(what, BTreeSet::new()), BTreeSet::new());
    let begin = Instant::now();
    until(|| {
        last = std::mem::replace(&mut left.1, look());
        left.1.is_empty().then_some(())
    });
    if begin.elapsed() > SLOW {
        println!("soak: {what} left for {:.1?}, the last: {last:?}", begin.elapsed());
    }
}
