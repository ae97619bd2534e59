//! Profiles of library calls: `bin/call_profile`, whose probes are set in processes one by one.
//!
//! In: functions with their sites, and processes. Out: sums of calls by place of the call, and the
//! calls that have not ended. All starts of a process in a file are one link, and all ends another;
//! when this value is dropped, also by the death of the program, the kernel removes them.

mod prices;

use crate::kernel::Kernel;
use crate::object::{Object, Record};
use crate::uprobe_link::UprobeLink;
use crate::uprobe_links::{self, LinkedProgram};
use aya::maps::{Array, HashMap as Table};
use monitor_backend::Error;
pub use monitor_ebpf::abi::call_profile::{
    CallSite, CallSums, NO_ARGUMENT, OpenCall, ProfiledFunction,
};
use monitor_ebpf::abi::call_profile::{
    FUNCTIONS, GENERATIONS, MAX_FUNCTIONS, MAX_PROCESSES, OPEN_CALLS, ProbeOwner, SITES,
};
use monitor_model::Pid;
pub use prices::{CallPrices, StartKind};
use std::path::PathBuf;
use std::thread;

/// Flag of an insertion: the key must be new (`BPF_NOEXIST`).
const NO_EXIST: u64 = 1;
/// Most threads that close links.
const MAX_CLOSERS: usize = 32;
/// Bits of a generation that the kernel compares.
const GENERATION_BITS: u32 = 0xff;

/// The programs, and the probes that are set.
pub struct CallProfiler {
    object: Object,
    begin: LinkedProgram,
    end: LinkedProgram,
    jump: LinkedProgram,
    /// By number of the process.
    processes: Vec<ProfiledProcess>,
}

#[derive(Default)]
struct ProfiledProcess {
    generation: u32,
    links: Vec<UprobeLink>,
}

/// Where the functions of a file are to be probed.
#[derive(Clone, Debug, Default)]
pub struct ProfiledFile {
    /// A path to the file.
    pub path: PathBuf,
    /// Offsets of starts in the file, and indexes of their functions.
    pub starts: Vec<(u64, u32)>,
    /// Offsets of return instructions, likewise.
    pub returns: Vec<(u64, u32)>,
    /// Offsets of jumps to other functions, likewise.
    pub jumps: Vec<(u64, u32)>,
}

impl CallProfiler {
    /// Loads the programs.
    ///
    /// # Errors
    /// If the kernel is older than 6.6, privileges are missing, or the machine is no x86.
    pub fn load() -> Result<Self, Error> {
        let kernel = Kernel::read(0)?;
        if !kernel.facts.has_x86_registers() {
            let why = "the registers of this processor are not read";
            return Err(Error::unsupported("a profile of calls", why, "use 64-bit x86"));
        }
        let object = Object::load("call_profile", &kernel, &[], &[])?;
        let [begin, end, jump] = uprobe_links::load(&object, ["begin", "end", "jump"])?;
        Ok(Self { object, begin, end, jump, processes: Vec::new() })
    }

    /// Describes the functions, whose indexes are their places in the list.
    ///
    /// # Errors
    /// If they are more than 1,024.
    pub fn set_functions(&mut self, functions: &[ProfiledFunction]) -> Result<(), Error> {
        check_count("functions", functions.len(), MAX_FUNCTIONS)?;
        let rows = functions.iter().map(|it| Record(*it));
        (0..).zip(rows).try_for_each(|(index, it)| self.set(FUNCTIONS, index, it))
    }

    /// Sets the probes of a process, instead of those that it has: no call is missed or counted
    /// twice meanwhile. False if it has ended.
    ///
    /// # Errors
    /// If the kernel refuses a probe, or the number is 4,096 or more.
    pub fn probe(
        &mut self,
        (number, process): (u32, Pid),
        files: &[ProfiledFile],
    ) -> Result<bool, Error> {
        check_count("processes", number as usize + 1, MAX_PROCESSES)?;
        if self.processes.len() <= number as usize {
            self.processes.resize_with(number as usize + 1, ProfiledProcess::default);
        }
        let generation = self.processes[number as usize].generation + 1;
        let owner = |function| ProbeOwner { process: number, generation, function };
        let mut links = Vec::new();
        for file in files {
            let ends = [(&self.end, &file.returns), (&self.jump, &file.jumps)];
            for (program, sites) in ends.into_iter().chain([(&self.begin, &file.starts)]) {
                let sites = sites.iter().map(|(offset, it)| (*offset, owner(*it).cookie()));
                let sites = Vec::from_iter(sites);
                if sites.is_empty() {
                    continue;
                }
                match program.attach(process, &file.path, &sites)? {
                    Some(link) => links.push(link),
                    None => return Ok(false),
                }
            }
        }
        self.set(GENERATIONS, number, generation & GENERATION_BITS)?;
        let before = std::mem::replace(
            &mut self.processes[number as usize],
            ProfiledProcess { generation, links },
        );
        close(before.links);
        Ok(true)
    }

    /// Adds a call of a thread that began before its probes were set, unless a call or an end of
    /// the thread was seen.
    pub fn add_open_call(&mut self, thread: u32, call: OpenCall) {
        let table = |map| Table::<_, u32, Record<OpenCall>>::try_from(map).ok();
        let Some(mut table) = self.object.ebpf.map_mut(OPEN_CALLS).and_then(table) else { return };
        // There is a row if something was seen meanwhile.
        let _ = table.insert(thread, Record(call), NO_EXIST);
    }

    /// The sums of all places.
    pub fn sums(&self) -> Vec<(CallSite, CallSums)> {
        self.object.rows(SITES)
    }

    /// The calls that have not ended.
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let all: Vec<(u32, OpenCall)> = self.object.rows(OPEN_CALLS);
        all.into_iter().map(|(_, it)| it).filter(|it| it.since_ns != 0).collect()
    }

    /// Number of calls that are missing, because a table was full.
    pub fn lost(&self) -> u64 {
        self.object.loss().table_full
    }

    /// Ends the counting at one moment; the probes are still there, and the sums stay.
    ///
    /// # Errors
    /// If the table of generations cannot be written.
    pub fn end_counting(&mut self) -> Result<(), Error> {
        for number in 0..self.processes.len() {
            let process = &mut self.processes[number];
            process.generation += 1;
            let generation = process.generation & GENERATION_BITS;
            self.set(GENERATIONS, u32::try_from(number).unwrap_or(u32::MAX), generation)?;
        }
        Ok(())
    }

    /// Sets an element of one of the arrays.
    fn set<T: aya::Pod>(&mut self, map: &str, index: u32, value: T) -> Result<(), Error> {
        let missing = self.object.no_map(map);
        let array = |map| Array::<_, T>::try_from(map).ok();
        let array = self.object.ebpf.map_mut(map).and_then(array);
        array.and_then(|mut it| it.set(index, value, 0).ok()).ok_or(missing)
    }
}

impl Drop for CallProfiler {
    /// Removes the probes of all processes at the same time.
    fn drop(&mut self) {
        close(self.processes.drain(..).flat_map(|it| it.links).collect());
    }
}

/// Closes links, many at the same time: for each the kernel waits for grace periods.
fn close(mut links: Vec<UprobeLink>) {
    let share = links.len().div_ceil(MAX_CLOSERS);
    thread::scope(|scope| {
        while !links.is_empty() {
            let some = links.split_off(links.len() - share.min(links.len()));
            let _closer = scope.spawn(move || drop(some));
        }
    });
}

fn check_count(what: &str, count: usize, most: u32) -> Result<(), Error> {
    if count <= most as usize {
        return Ok(());
    }
    let why = format!("{count} {what} are too many: {most} are possible");
    Err(Error::unsupported("a profile of calls", why, "name fewer ranks"))
}
