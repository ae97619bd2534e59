//! Facts of the running kernel and machine that are needed to load BPF objects.
//!
//! In: the kernel's BTF, which is read once in the life of the program. Out: the facts that are
//! kept, and a loader with types of the kernel, used by all objects that are loaded at a time and
//! dropped with them.

use crate::attach_types::AttachTypes;
use crate::btf_blob::{self, BtfBlob};
use crate::btf_offsets::BtfTypes;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader};
use monitor_backend::Error;
use monitor_ebpf::abi::offset::{ABSENT, MemberPath, Offsets};
use monitor_ebpf::abi::{block, lifecycle, rule, run_queue, signal, socket, task, tcp};
use monitor_sys::{mmap_file::MmapFile, thread_root};
use std::sync::{Mutex, OnceLock, PoisonError};
use zerocopy::IntoBytes;

/// Every record of offsets that a program can have, with its members.
const RECORDS: &[(&str, &[MemberPath])] = &[
    record::<task::TaskOffsets>(),
    record::<task::ArrayOffsets>(),
    record::<lifecycle::BinprmOffsets>(),
    record::<signal::SiginfoOffsets>(),
    record::<socket::RegisterOffsets>(),
    record::<tcp::SockOffsets>(),
    record::<tcp::TcpOffsets>(),
    record::<tcp::MptcpOffsets>(),
    record::<block::RequestOffsets>(),
    record::<run_queue::RunQueueOffsets>(),
    record::<rule::CallOffsets>(),
    record::<rule::ActionOffsets>(),
];

const fn record<T: Offsets>() -> (&'static str, &'static [MemberPath]) {
    (T::SYMBOL, T::MEMBERS)
}

/// The ring of the programs' own diagnostics, as aya-log names it; a page while they are off.
const DIAGNOSTICS: (&str, u32) = ("AYA_LOGS", 4096);

/// Levels of diagnostics, as in aya-log; 0 is off.
const LOG_LEVELS: [u8; 6] = [0, 1, 2, 3, 4, 5];

/// Facts that do not change while the kernel runs.
pub struct Facts {
    /// For each record, its symbol and the offsets in order.
    offsets: Vec<(&'static str, Vec<u32>)>,
    /// Number of CPUs whose parts of the resident size programs add; 0 if there are none, or too
    /// many.
    pub rss_cpus: u32,
    /// The types that programs are attached by.
    attach_types: AttachTypes,
}

/// Read once from the kernel's BTF.
static FACTS: OnceLock<Facts> = OnceLock::new();

/// The running kernel, for loading.
pub struct Kernel {
    /// BTF, for the types that programs attach by.
    pub btf: Btf,
    /// Facts from the BTF.
    pub facts: &'static Facts,
    /// Sizes of the machine, which determine those of maps.
    pub machine: Machine,
    /// Level of the programs' diagnostics, as in aya-log; 0 is off.
    pub log_level: u8,
    loader: Mutex<EbpfLoader<'static>>,
}

/// Sizes of the machine, which determine those of maps.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Number of possible CPUs.
    pub cpus: u32,
    /// Highest process id.
    pub pid_max: u32,
}

/// A constant of an object besides offsets: its symbol, with the same meaning in every object, and
/// its value.
pub type Constant = (&'static str, &'static u32);

/// The name of a map, and its number of rows or of bytes.
pub type MapSize = (&'static str, u32);

/// The types of the running kernel that programs are attached by.
///
/// # Errors
///
/// If the kernel's BTF cannot be read.
pub fn types() -> Result<Btf, Error> {
    Facts::of_kernel(btf_blob::read)?.attach_types.btf()
}

impl Facts {
    /// Those of the running kernel. Its BTF is read if they are not known.
    fn of_kernel(read: impl FnOnce() -> Result<MmapFile, Error>) -> Result<&'static Self, Error> {
        if let Some(known) = FACTS.get() {
            return Ok(known);
        }
        let facts = Self::from_blob(BtfBlob::new(&read()?)?);
        Ok(FACTS.get_or_init(|| facts))
    }

    fn from_blob(blob: BtfBlob<'_>) -> Self {
        let layout = BtfTypes::new(blob);
        let resolve =
            |members: &[MemberPath]| members.iter().map(|it| layout.resolve(it)).collect();
        let offsets = RECORDS.iter().map(|(symbol, all)| (*symbol, resolve(all))).collect();
        let attach_types = AttachTypes::from_blob(blob);
        let mut facts = Self { offsets, rss_cpus: 0, attach_types };
        let cpus = Machine::read().cpus;
        if cpus as usize <= task::MAX_EXACT_CPUS && facts.counts_rss_per_cpu() {
            facts.rss_cpus = cpus;
        }
        facts
    }

    fn record<T: Offsets>(&self) -> Option<T> {
        let (_, offsets) = self.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        T::read_from_bytes(offsets.as_bytes()).ok()
    }

    /// Whether resident sizes have per-CPU parts: since 6.2.
    pub fn counts_rss_per_cpu(&self) -> bool {
        self.record::<task::TaskOffsets>().is_none_or(|offsets| offsets.mm_rss_plain == ABSENT)
    }

    /// Whether probed instructions have the registers of 64-bit x86, where its programs read them.
    pub fn has_x86_registers(&self) -> bool {
        let offsets = self.record::<rule::CallOffsets>();
        offsets.is_some_and(|it| (it.di, it.sp) == (rule::X86_DI, rule::X86_SP))
    }

    /// Whether a bio has its device, not just its disk: since 5.12.
    pub fn bios_have_devices(&self) -> bool {
        self.record::<block::RequestOffsets>().is_some_and(|offsets| offsets.bio_bdev != ABSENT)
    }
}

impl Kernel {
    /// Reads the running kernel's BTF, if it was not read before.
    pub fn read(log_level: u8) -> Result<Self, Error> {
        std::thread::scope(|scope| {
            let loader = scope.spawn(loader);
            let facts = Facts::of_kernel(btf_blob::read)?;
            let btf = facts.attach_types.btf()?;
            let loader = loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let loader = Mutex::new(prepared(loader, facts, log_level));
            Ok(Self { btf, facts, machine: Machine::read(), log_level, loader })
        })
    }

    /// Loads an object: creates its maps and prepares its programs, which are not verified yet.
    pub fn load(
        &self,
        object: &[u8],
        constants: &[Constant],
        sizes: &[MapSize],
    ) -> Result<Ebpf, EbpfError> {
        let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
        for (symbol, value) in constants {
            loader.override_global(symbol, *value, false);
        }
        for (map, size) in sizes {
            loader.map_max_entries(map, *size);
        }
        loader.load(object)
    }

    /// The first member of a record of offsets that the running kernel does not have.
    pub fn lacks<T: Offsets>(&self) -> Option<&'static str> {
        let (_, offsets) = self.facts.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        let index = offsets.iter().position(|offset| *offset == ABSENT)?;
        Some(T::MEMBERS[index].paths[0])
    }
}

/// A loader without types of the kernel; only for a thread that then ends. aya's only constructor
/// parses them all, 16 MiB that nothing here uses: this thread does not find the file.
fn loader() -> EbpfLoader<'static> {
    // If it finds the file, it takes longer.
    let _ = thread_root::leave_files();
    EbpfLoader::new()
}

/// The loader, with the settings common to all objects.
fn prepared(
    mut loader: EbpfLoader<'static>,
    facts: &'static Facts,
    log_level: u8,
) -> EbpfLoader<'static> {
    // Member offsets are resolved by `btf_offsets`.
    loader.btf(None).allow_unsupported_maps();
    for (symbol, offsets) in &facts.offsets {
        loader.override_global(symbol, offsets.as_slice(), false);
    }
    let level = LOG_LEVELS.get(usize::from(log_level)).or(LOG_LEVELS.last());
    if let Some(level) = level {
        loader.override_global(aya_log::LEVEL, level, false);
    }
    if log_level == 0 {
        loader.map_max_entries(DIAGNOSTICS.0, DIAGNOSTICS.1);
    }
    loader
}

impl Machine {
    fn read() -> Self {
        let cpus = aya::util::nr_cpus().map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let pid_max = std::fs::read_to_string("/proc/sys/kernel/pid_max")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(32_768);
        Self { cpus, pid_max }
    }

    /// Rows of a table with one for each process that was active since the last reading:
    /// a quarter of the pid space, within bounds that keep one table between 1 and 16 Ki rows.
    pub fn rows(self) -> u32 {
        (self.pid_max / 4).clamp(1 << 10, 1 << 14)
    }

    /// Size in bytes of a ring buffer that is drained once a second, or when a quarter is used: 256
    /// KiB per CPU, between 1 and 16 MiB, a power of two as the kernel requires.
    pub fn ring_bytes(self) -> u32 {
        self.cpus.saturating_mul(256 << 10).clamp(1 << 20, 16 << 20).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_the_kernel_are_read_once() {
        let Ok(first) = Facts::of_kernel(btf_blob::read) else { return };
        let again = Facts::of_kernel(|| panic!("they are read again"));
        assert!(std::ptr::eq(first, again.unwrap()));
    }
}
