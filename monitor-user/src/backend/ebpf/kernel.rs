//! What loading a program needs to know of the running kernel and machine.
//!
//! Built once, used by every object, dropped when all are loaded: it holds the kernel's types,
//! which are the largest thing that the monitor ever keeps.

use super::layout::Layout;
use crate::backend::Error;
use aya::Btf;
use monitor_ebpf::abi::offset::{ABSENT, Member, Offsets};
use monitor_ebpf::abi::{block, life, rule, run_queue, signal, socket, task, tcp};
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

/// The running kernel, for loading.
pub struct Kernel {
    /// Ids of the types that programs attach by.
    pub btf: Btf,
    /// For each record, its symbol and the offsets in order.
    pub offsets: Vec<(&'static str, Vec<u32>)>,
    /// What maps are sized by.
    pub machine: Machine,
    /// Level of the programs' own diagnostics, as aya-log counts; 0 is off.
    pub log_level: u8,
}

/// What maps are sized by.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// CPUs that could ever come on line.
    pub cpus: u32,
    /// Highest process id.
    pub pid_max: u32,
}

impl Kernel {
    /// Reads what is needed of the running kernel.
    pub fn read(log_level: u8) -> Result<Self, Error> {
        let layout = Layout::of_running_kernel()?;
        let resolve = |members: &[Member]| members.iter().map(|it| layout.resolve(it)).collect();
        let offsets = RECORDS.iter().map(|(symbol, all)| (*symbol, resolve(all))).collect();
        drop(layout);
        let btf = Btf::from_sys_fs().map_err(|error| Error::Unsupported {
            what: "eBPF".into(),
            why: format!("the kernel's types cannot be used: {error}"),
            fix: "a kernel built with CONFIG_DEBUG_INFO_BTF=y has them".into(),
        })?;
        Ok(Self { btf, offsets, machine: Machine::read(), log_level })
    }

    /// A record of offsets, as programs are given it.
    pub fn record<T: Offsets>(&self) -> Option<T> {
        let (_, offsets) = self.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        T::read_from_bytes(offsets.as_bytes()).ok()
    }

    /// Whether each CPU holds back a part of resident sizes: since 6.2.
    pub fn counts_rss_per_cpu(&self) -> bool {
        self.record::<task::TaskOffsets>().is_none_or(|offsets| offsets.mm_rss_plain == ABSENT)
    }

    /// The CPUs whose parts programs add up; 0 where there are none, or too many.
    pub fn rss_cpus(&self) -> u32 {
        let few = self.machine.cpus as usize <= task::EXACT_CPUS;
        if few && self.counts_rss_per_cpu() { self.machine.cpus } else { 0 }
    }

    /// The first member of a record of offsets that the running kernel does not have.
    pub fn lacks<T: Offsets>(&self) -> Option<&'static str> {
        let (_, offsets) = self.offsets.iter().find(|(symbol, _)| *symbol == T::SYMBOL)?;
        let index = offsets.iter().position(|offset| *offset == ABSENT)?;
        Some(T::MEMBERS[index].paths[0])
    }
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
