//! Profiles of library calls: `bin/call_profile`, whose probes are set in processes one by one.
//!
//! In: functions with their sites, and processes. Out: sums of calls by place of the call, and the
//! calls that have not ended. All starts of a process in a file are one link, and all ends another;
//! before Linux 6.6 each probe is one, and their number is limited. When this value is dropped,
//! also by the death of the program, the kernel removes them.

mod prices;

use crate::kernel::Kernel;
use crate::object::{Object, Record};
use crate::uprobe_link::UprobeLink;
use crate::uprobe_links::{self, LinkKind, LinkedProgram, ProbePosition};
use aya::maps::{Array, HashMap as Table};
use monitor_backend::Error;
use monitor_backend::call_profile::{
    CallProbePrices, CallProfiler, CallSite, CallSums, OpenCall, ProbeLinks, ProfiledFile,
    ProfiledFunction,
};
use monitor_ebpf::abi::call_profile::{
    FUNCTIONS, GENERATIONS, MAX_FUNCTIONS, MAX_PROCESSES, OPEN_CALLS, ProbeOwner, SITES,
};
use monitor_model::Pid;
use std::thread;

/// Flag of an insertion: the key must be new (`BPF_NOEXIST`).
const NO_EXIST: u64 = 1;
/// Most threads that close links.
const MAX_CLOSERS: usize = 32;
/// Bits of a generation that the kernel compares.
const GENERATION_BITS: u32 = 0xff;
/// Most probes, where each is a link with two descriptors: to set one takes the kernel about 12 ms
/// (docs/journal/2026-11-23-probes.md).
const MAX_SINGLE_PROBES: usize = 2048;

/// The programs, and the probes that are set.
pub struct KernelCallProfiler {
    object: Object,
    begin: LinkedProgram,
    end: LinkedProgram,
    jump: LinkedProgram,
    returned: LinkedProgram,
    /// By number of the process.
    processes: Vec<ProfiledProcess>,
    prices: CallProbePrices,
}

#[derive(Default)]
struct ProfiledProcess {
    generation: u32,
    links: Vec<UprobeLink>,
}

/// Whether calls can be profiled here.
///
/// # Errors
/// As [`KernelCallProfiler::open`].
pub fn check() -> Result<(), Error> {
    KernelCallProfiler::load(ProbeLinks::Best).map(drop)
}

impl KernelCallProfiler {
    /// Loads the programs.
    fn load(links: ProbeLinks) -> Result<Self, Error> {
        let kernel = Kernel::read(0)?;
        if !kernel.facts.has_x86_registers() {
            let why = "the registers of this processor are not read";
            return Err(Error::unsupported("a profile of calls", why, "use 64-bit x86"));
        }
        let object = Object::load("call_profile", &kernel, &[], &[])?;
        let names = ["begin", "end", "jump", "returned"];
        let many = match links {
            ProbeLinks::Best => uprobe_links::load(&object, names, LinkKind::Many)?,
            ProbeLinks::OneByOne => None,
        };
        let loaded = match many {
            Some(many) => Some(many),
            None => uprobe_links::load(&object, names, LinkKind::Single)?,
        };
        let needs = || {
            let why = "this kernel has no probes with a number";
            Error::unsupported("a profile of calls", why, "use Linux 5.15 or newer")
        };
        let [begin, end, jump, returned] = loaded.ok_or_else(needs)?;
        let (processes, prices) = (Vec::new(), CallProbePrices::default());
        Ok(Self { object, begin, end, jump, returned, processes, prices })
    }

    /// Refuses probes beyond the limit.
    fn check_room(&self, number: u32, files: &[ProfiledFile]) -> Result<(), Error> {
        check_count("processes", number as usize + 1, MAX_PROCESSES as usize)?;
        if self.begin.kind() == LinkKind::Many {
            return Ok(());
        }
        let of_file = |it: &ProfiledFile| {
            it.starts.len() + it.returns.len() + it.jumps.len() + it.trampolines.len()
        };
        let wanted: usize = files.iter().map(of_file).sum();
        // Those of this process stay until the others are set.
        let before: usize = self.processes.iter().map(|it| it.links.len()).sum();
        check_count("probes", before + wanted, MAX_SINGLE_PROBES)
    }

    /// Sets the probes of a file; `None` if the process has ended.
    fn link(
        &self,
        process: Pid,
        file: &ProfiledFile,
        owner: impl Fn(u32) -> ProbeOwner,
    ) -> Result<Option<Vec<UprobeLink>>, Error> {
        // Ends first: each call that begins then is seen to end.
        let all = [
            (&self.end, &file.returns, ProbePosition::Instruction),
            (&self.jump, &file.jumps, ProbePosition::Instruction),
            (&self.returned, &file.trampolines, ProbePosition::ReturnOfCall),
            (&self.begin, &file.starts, ProbePosition::Instruction),
        ];
        let mut links = Vec::new();
        for (program, sites, position) in all {
            let sites = sites.iter().map(|(offset, it)| (*offset, owner(*it).cookie()));
            let sites = Vec::from_iter(sites);
            if sites.is_empty() {
                continue;
            }
            match program.attach(process, (&file.path, position), &sites)? {
                Some(new) => links.extend(new),
                None => return Ok(None),
            }
        }
        Ok(Some(links))
    }

    /// Sets an element of one of the arrays.
    fn set<T: aya::Pod>(&mut self, map: &str, index: u32, value: T) -> Result<(), Error> {
        let missing = self.object.no_map(map);
        let array = |map| Array::<_, T>::try_from(map).ok();
        let array = self.object.ebpf.map_mut(map).and_then(array);
        array.and_then(|mut it| it.set(index, value, 0).ok()).ok_or(missing)
    }
}

impl CallProfiler for KernelCallProfiler {
    fn prices(&self) -> CallProbePrices {
        self.prices
    }

    fn set_functions(&mut self, functions: &[ProfiledFunction]) -> Result<(), Error> {
        check_count("functions", functions.len(), MAX_FUNCTIONS as usize)?;
        let rows = functions.iter().map(|it| Record(*it));
        (0..).zip(rows).try_for_each(|(index, it)| self.set(FUNCTIONS, index, it))
    }

    fn probe(
        &mut self,
        (number, process): (u32, Pid),
        files: &[ProfiledFile],
    ) -> Result<bool, Error> {
        self.check_room(number, files)?;
        if self.processes.len() <= number as usize {
            self.processes.resize_with(number as usize + 1, ProfiledProcess::default);
        }
        let generation = self.processes[number as usize].generation + 1;
        let owner = |function| ProbeOwner { process: number, generation, function };
        let mut links = Vec::new();
        for file in files {
            match self.link(process, file, owner)? {
                Some(of_file) => links.extend(of_file),
                None => return Ok(false),
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

    fn add_open_call(&mut self, thread: u32, call: OpenCall) {
        let table = |map| Table::<_, u32, Record<OpenCall>>::try_from(map).ok();
        let Some(mut table) = self.object.ebpf.map_mut(OPEN_CALLS).and_then(table) else { return };
        // There is a row if something was seen meanwhile.
        let _ = table.insert(thread, Record(call), NO_EXIST);
    }

    fn sums(&self) -> Vec<(CallSite, CallSums)> {
        self.object.rows(SITES)
    }

    fn open_calls(&self) -> Vec<(u32, OpenCall)> {
        let all: Vec<(u32, OpenCall)> = self.object.rows(OPEN_CALLS);
        all.into_iter().filter(|(_, it)| it.since_ns != 0).collect()
    }

    fn lost(&self) -> u64 {
        self.object.loss().table_full
    }

    fn end_counting(&mut self) -> Result<(), Error> {
        for number in 0..self.processes.len() {
            let process = &mut self.processes[number];
            process.generation += 1;
            let generation = process.generation & GENERATION_BITS;
            self.set(GENERATIONS, u32::try_from(number).unwrap_or(u32::MAX), generation)?;
        }
        Ok(())
    }
}

impl Drop for KernelCallProfiler {
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

fn check_count(what: &str, count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    let why = format!("{count} {what} are too many: {most} are possible");
    Err(Error::unsupported("a profile of calls", why, "name fewer ranks"))
}
