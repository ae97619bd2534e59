//! Processes of jobs that wait for a file, the gate: they are found by its path, which all of them
//! have in their command line until they end.

use procfs::process::{Process, all_processes};

/// The processes with a text in their command line.
pub fn processes(text: &str) -> Vec<i32> {
    let has =
        |it: &Process| it.cmdline().is_ok_and(|words| words.iter().any(|it| it.contains(text)));
    all_processes().unwrap().flatten().filter(has).map(|it| it.pid()).collect()
}

/// The first processes of ranks; a child of a shell has its command line until it executes another
/// program.
pub fn ranks(gate: &str) -> Vec<i32> {
    let is_rank = |pid: &i32| {
        let environ = Process::new(*pid).and_then(|it| it.environ()).unwrap_or_default();
        let has = |name: &str| environ.contains_key(std::ffi::OsStr::new(name));
        has("PMIX_RANK") || has("PMI_RANK")
    };
    let all: Vec<i32> = processes(gate).into_iter().filter(is_rank).collect();
    let is_first = |pid: &i32| parent(*pid).is_some_and(|it| !all.contains(&it));
    all.iter().copied().filter(is_first).collect()
}

fn parent(pid: i32) -> Option<i32> {
    Process::new(pid).and_then(|it| it.stat()).ok().map(|it| it.ppid)
}

/// The children of a process that execute this program.
pub fn own_children(pid: i32) -> Vec<i32> {
    let program = std::fs::canonicalize(env!("CARGO_BIN_EXE_monitor")).unwrap();
    let is_own = |it: &Process| it.exe().is_ok_and(|it| it == program);
    let all = all_processes().unwrap().flatten().filter(|it| parent(it.pid()) == Some(pid));
    all.filter(is_own).map(|it| it.pid()).collect()
}

/// The state of a process, unless it has ended.
pub fn state(pid: i32) -> Option<char> {
    Process::new(pid).and_then(|it| it.stat()).ok().map(|it| it.state)
}

/// Whether nothing stops or traces a process.
pub fn runs_free(pid: i32) -> bool {
    let status = Process::new(pid).and_then(|it| it.status()).unwrap();
    status.tracerpid == 0 && !status.state.starts_with(['T', 't'])
}
