//! Ranks that are held where they call one of some functions for the first time.
//!
//! ```text
//!  exec -> trap at the linker's hook -> a library defines a function -> trap at the function
//! ```
//!
//! In: processes that begin ranks, their threads, and stops of them. Out: the thread that is about
//! to execute the first instruction of a function. A trap is a breakpoint of the processor that the
//! kernel removes with its descriptor; no code of the process is changed. The linker calls the hook
//! after it has loaded libraries, also those of dlopen(3); a program with the library linked into
//! it has the functions at its exec. A thread has four breakpoints.

use super::begun_rank::BegunRank;
use crate::process_ref::process_of;
use monitor_model::Pid;
use monitor_proc::maps;
use monitor_symbols::elf::{ElfImage, Symbol};
use monitor_symbols::function_spec::LINKER_HOOK;
use monitor_symbols::mapped_files;
use monitor_sys::{perf_event, ptrace};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

/// Breakpoints of a thread on x86 and on arm64 at least.
const MOST_TRAPS: usize = 4;

/// Most files that are kept open, about: those of one search are all kept.
const MOST_FILES: usize = 512;

/// The processes that have not called a function yet.
pub struct CallTraps {
    /// The names of the functions.
    functions: &'static [&'static str],
    processes: BTreeMap<i32, Awaited>,
    /// Files that were searched, by device and inode; none for one without symbols. Ranks have the
    /// same ones: to open and read them again for each takes longer than all else here.
    files: HashMap<((u32, u32), u64), Option<Searched>>,
    /// Opens an event that lasts as long as the traps do, so that none of them is the first one.
    _first_event: JoinHandle<io::Result<OwnedFd>>,
}

/// A file, and the places in it where a thread may be trapped: addresses in the file.
struct Searched {
    image: ElfImage,
    hook: Vec<u64>,
    calls: Vec<u64>,
}

/// A process that is awaited.
struct Awaited {
    begun: BegunRank,
    /// Where its threads are trapped.
    addresses: BTreeSet<u64>,
    /// Whether that is at functions, and not at the linker's hook.
    is_found: bool,
    traps: BTreeMap<i32, Vec<OwnedFd>>,
}

impl CallTraps {
    /// Call it before the launcher starts: the kernel takes some milliseconds for the first event,
    /// and a rank that is in a stop would wait for them.
    pub fn new(functions: &'static [&'static str]) -> Self {
        // Where it is refused, the traps are, and say why.
        let _first_event = std::thread::spawn(perf_event::open_dummy);
        Self { functions, processes: BTreeMap::new(), files: HashMap::new(), _first_event }
    }

    /// Awaits the call of a process that stopped at its exec.
    ///
    /// # Errors
    /// If the system refuses the breakpoints.
    pub fn add(&mut self, pid: i32, begun: BegunRank) -> io::Result<()> {
        let awaited =
            Awaited { begun, addresses: BTreeSet::new(), is_found: false, traps: BTreeMap::new() };
        let _before = self.processes.insert(pid, awaited);
        self.search(pid, pid)
    }

    /// Traps a thread that begins, if its process is awaited.
    ///
    /// # Errors
    /// If the system refuses the breakpoints.
    pub fn add_thread(&mut self, tid: i32) -> io::Result<()> {
        if self.processes.is_empty() || self.process_of(tid).is_some() {
            return Ok(());
        }
        match process_of(tid).and_then(|pid| self.processes.get_mut(&pid)) {
            Some(awaited) => awaited.trap(tid),
            None => Ok(()),
        }
    }

    /// The process that is awaited and has this thread.
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        let has_it = |it: &Awaited| it.traps.contains_key(&tid);
        self.processes.iter().find(|(_, it)| has_it(it)).map(|(pid, _)| *pid)
    }

    /// Handles a stop at a trap: the rank of the process, if it calls a function. Its traps are
    /// removed then.
    ///
    /// # Errors
    /// If the system refuses the breakpoints of the functions that a library has.
    pub fn hit(&mut self, pid: i32, tid: i32) -> io::Result<Option<BegunRank>> {
        if self.processes.get(&pid).is_some_and(|it| it.is_found) {
            return Ok(self.processes.remove(&pid).map(|it| it.begun));
        }
        self.search(pid, tid)?;
        Ok(None)
    }

    /// Forgets a thread that has ended.
    pub fn forget(&mut self, tid: i32) {
        let _ended = self.processes.remove(&tid);
        for awaited in self.processes.values_mut() {
            let _ended = awaited.traps.remove(&tid);
        }
    }

    /// Removes all traps; the threads that had them.
    pub fn remove_all(&mut self) -> Vec<i32> {
        let all = std::mem::take(&mut self.processes);
        all.into_values().flat_map(|it| it.traps.into_keys()).collect()
    }

    /// The number of the processes that are awaited.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Searches the functions in the files of a process, and moves its traps there; at its exec, or
    /// with a thread in the linker's hook.
    fn search(&mut self, pid: i32, tid: i32) -> io::Result<()> {
        let Some(awaited) = self.processes.get_mut(&pid) else { return Ok(()) };
        let (proc, id) = (Path::new("/proc"), Pid(pid.cast_unsigned()));
        // One that ends, or whose files are hidden, is at no function.
        if self.files.len() >= MOST_FILES {
            self.files.clear();
        }
        let mappings = maps::mappings(proc, id).unwrap_or_default();
        let mut hook = BTreeSet::new();
        let mut calls = BTreeSet::new();
        for mapping in mappings.iter().filter(|it| it.is_executable && it.inode != 0) {
            let file = self.files.entry((mapping.device, mapping.inode));
            let open = || mapped_files::image(proc, id, mapping);
            let file =
                file.or_insert_with(|| open().ok().map(|it| Searched::new(it, self.functions)));
            let Some(file) = file else { continue };
            let Some(bias) = file.image.bias(mapping.start, mapping.offset) else { continue };
            let loaded = |address: &u64| address.wrapping_add(bias);
            hook.extend(file.hook.iter().map(loaded));
            calls.extend(file.calls.iter().map(loaded));
        }
        awaited.is_found = !calls.is_empty();
        let wanted: BTreeSet<u64> = if awaited.is_found { calls } else { hook };
        let wanted = wanted.into_iter().take(MOST_TRAPS).collect();
        if wanted == awaited.addresses && !awaited.traps.is_empty() {
            return Ok(());
        }
        awaited.addresses = wanted;
        let mut threads: BTreeSet<i32> = std::mem::take(&mut awaited.traps).into_keys().collect();
        threads.insert(tid);
        threads.into_iter().try_for_each(|tid| awaited.trap(tid))
    }
}

impl Searched {
    fn new(image: ElfImage, functions: &[&str]) -> Self {
        let is_hook = |name: &str| LINKER_HOOK.split('|').any(|hook| hook == name);
        let wanted = |name: &str| is_hook(name) || functions.contains(&name);
        // A file whose symbols cannot be read has none.
        let found = image.symbols(wanted).unwrap_or_default();
        let (hook, calls): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| is_hook(&it.name));
        let addresses = |all: Vec<Symbol>| all.into_iter().map(|it| it.address).collect();
        Self { image, hook: addresses(hook), calls: addresses(calls) }
    }
}

impl Awaited {
    fn trap(&mut self, tid: i32) -> io::Result<()> {
        let open = |address: &u64| perf_event::open_trap(Pid(tid.cast_unsigned()), *address);
        match self.addresses.iter().map(open).collect() {
            Ok(traps) => _ = self.traps.insert(tid, traps),
            // It has ended.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether a thread that stopped with this status is at a breakpoint of the processor.
pub fn is_trap(tid: i32, status: i32) -> bool {
    let is_perf = |code| code == ptrace::TRAP_PERF;
    status >> 8 == Signal::TRAP.as_raw() && ptrace::signal_code(tid).is_ok_and(is_perf)
}
