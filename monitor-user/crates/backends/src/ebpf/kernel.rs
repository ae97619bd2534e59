//! What loading a program needs to know of the running kernel and machine.
//!
//! Built once, used by every object, dropped when all are loaded: it holds the kernel's types,
//! which are the largest thing that the monitor ever keeps. aya reads them anew for every loader
//! that is made, even if it is told to use none; so all objects share one.

use super::layout::{self, Layout};
use super::object::Settings;
use aya::{Btf, Ebpf, EbpfError, EbpfLoader, Endianness};
use monitor_backend::Error;
use monitor_ebpf::abi::offset::{ABSENT, Member, Offsets};
use monitor_ebpf::abi::{block, life, rule, run_queue, signal, socket, task, tcp};
use std::sync::{Mutex, OnceLock, PoisonError};
use zerocopy::IntoBytes;

/// Every record of offsets that a program can have, with its members.
const RECORDS: &[(&str, &[Member])] = &[
    record::<task::TaskOffsets>(),
    record::<task::ArrayOffsets>(),
    record::<life::ProgramOffsets>(),
    record::<signal::SiginfoOffsets>(),
    record::<socket::RegisterOffsets>(),
    record::<tcp::SockOffsets>(),
    record::<tcp::TcpOffsets>(),
    record::<block::RequestOffsets>(),
    record::<run_queue::RunQueueOffsets>(),
    record::<rule::CallOffsets>(),
    record::<rule::ActionOffsets>(),
];

const fn record<T: Offsets>() -> (&'static str, &'static [Member]) {
    (T::SYMBOL, T::MEMBERS)
}

/// The ring of the programs' own diagnostics, as aya-log names it; a page while they are off.
const DIAGNOSTICS: (&str, u32) = ("AYA_LOGS", 4096);

/// Levels of diagnostics, as aya-log counts; 0 is off.
const LEVELS: [u8; 6] = [0, 1, 2, 3, 4, 5];

/// What stays the same as long as the kernel runs.
struct Facts {
    /// For each record, its symbol and the offsets in order.
    offsets: Vec<(&'static str, Vec<u32>)>,
    /// See [`Kernel::rss_cpus`].
    rss_cpus: u32,
}

/// Learned from the first reading of the kernel's types.
static FACTS: OnceLock<Facts> = OnceLock::new();

/// The running kernel, for loading.
pub struct Kernel {
    /// Ids of the types that programs attach by.
    pub btf: Btf,
    facts: &'static Facts,
    /// What maps are sized by.
    pub machine: Machine,
    /// Level of the programs' own diagnostics, as aya-log counts; 0 is off.
    pub log_level: u8,
    loader: Mutex<EbpfLoader<'static>>,
}

/// What maps are sized by.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// CPUs that could ever come on line.
    pub cpus: u32,
    /// Highest process id.
    pub pid_max: u32,
}

/// Ids of the running kernel's types.
pub fn types() -> Result<Btf, Error> {
    parsed(&layout::read()?)
}

fn parsed(data: &[u8]) -> Result<Btf, Error> {
    Btf::parse(data, Endianness::default()).map_err(|error| Error::Unsupported {
        what: "eBPF".into(),
        why: format!("the kernel's types cannot be used: {error}"),
        fix: "a kernel built with CONFIG_DEBUG_INFO_BTF=y has them".into(),
    })
}

impl Facts {
    fn learn(data: &[u8]) -> Result<&'static Self, Error> {
        if let Some(known) = FACTS.get() {
            return Ok(known);
        }
        let layout = Layout::of_running_kernel(data)?;
        let resolve = |members: &[Member]| members.iter().map(|it| layout.resolve(it)).collect();
        let offsets = RECORDS.iter().map(|(symbol, all)| (*symbol, resolve(all))).collect();
        let mut facts = Self { offsets, rss_cpus: 0 };
        let cpus = Machine::read().cpus;
        if cpus as usize <= task::EXACT_CPUS && facts.counts_rss_per_cpu() {
            facts.rss_cpus = cpus;
        }
        Ok(FACTS.get_or_init(|| facts))
    }

    fn record<T: Offsets>(&self) -> Option<T> {
        let (_, offsets) = self.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        T::read_from_bytes(offsets.as_bytes()).ok()
    }

    /// See [`Kernel::counts_rss_per_cpu`].
    fn counts_rss_per_cpu(&self) -> bool {
        self.record::<task::TaskOffsets>().is_none_or(|offsets| offsets.mm_rss_plain == ABSENT)
    }
}

impl Kernel {
    /// Reads what is needed of the running kernel.
    pub fn read(log_level: u8) -> Result<Self, Error> {
        std::thread::scope(|scope| {
            let loader = scope.spawn(EbpfLoader::new);
            let data = layout::read()?;
            let btf = parsed(&data)?;
            let facts = Facts::learn(&data)?;
            let loader = loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let loader = Mutex::new(prepared(loader, facts, log_level));
            Ok(Self { btf, facts, machine: Machine::read(), log_level, loader })
        })
    }

    /// Loads an object: its maps and its programs' code, none of which the kernel has checked yet.
    pub fn load(&self, object: &[u8], settings: &Settings<'_>) -> Result<Ebpf, EbpfError> {
        let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
        for (symbol, value) in settings.constants {
            loader.override_global(symbol, *value, false);
        }
        for (map, size) in settings.sizes {
            loader.map_max_entries(map, *size);
        }
        loader.load(object)
    }

    /// Whether each CPU holds back a part of resident sizes: since 6.2.
    pub fn counts_rss_per_cpu(&self) -> bool {
        self.facts.counts_rss_per_cpu()
    }

    /// The CPUs whose parts of a resident size programs add up; 0 where there are none, or too
    /// many.
    pub fn rss_cpus(&self) -> &'static u32 {
        &self.facts.rss_cpus
    }

    /// The first member of a record of offsets that the running kernel does not have.
    pub fn lacks<T: Offsets>(&self) -> Option<&'static str> {
        let (_, offsets) = self.facts.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        let index = offsets.iter().position(|offset| *offset == ABSENT)?;
        Some(T::MEMBERS[index].paths[0])
    }
}

/// The loader with what every object is given.
fn prepared(
    mut loader: EbpfLoader<'static>,
    facts: &'static Facts,
    log_level: u8,
) -> EbpfLoader<'static> {
    // Members are found by our own reader of the types.
    loader.btf(None).allow_unsupported_maps();
    for (symbol, offsets) in &facts.offsets {
        loader.override_global(symbol, offsets.as_slice(), false);
    }
    let level = LEVELS.get(usize::from(log_level)).or(LEVELS.last());
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

    /// Rows of a table that has one for each process that did something since the last reading:
    /// a quarter of the pid space, within bounds that keep one table between 1 and 16 Ki rows.
    pub fn rows(self) -> u32 {
        (self.pid_max / 4).clamp(1 << 10, 1 << 14)
    }

    /// Bytes of a ring buffer that is emptied once a second, or earlier when a quarter is used:
    /// 256 KiB a CPU, between 1 and 16 MiB, a power of two as the kernel wants it.
    pub fn ring_bytes(self) -> u32 {
        self.cpus.saturating_mul(256 << 10).clamp(1 << 20, 16 << 20).next_power_of_two()
    }
}
