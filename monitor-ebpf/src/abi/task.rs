//! Threads and processes, as `bin/snapshot.rs` reads them from the kernel's own accounting.
//!
//! The stream of a snapshot is a sequence of [`ThreadRecord`] and [`ProcessRecord`] records,
//! distinguished by `kind`. The kernel does not add up threads: the totals of a process are its
//! `dead` sums plus its live threads, added in user space. Values are read without a lock, so two
//! counters of one record may be some nanoseconds apart; none is torn (each is one aligned load).

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `ThreadRecord::kind` of a thread that is not its group's leader.
pub const KIND_THREAD: u32 = 1;
/// `ThreadRecord::kind` of a leader: the record is a whole [`ProcessRecord`].
pub const KIND_PROCESS: u32 = 2;

/// Bit of `ThreadRecord::state` that the kernel does not use: it is on a processor, so the time and
/// the switch with which it leaves are not counted yet.
pub const ON_CPU: u32 = 1 << 31;

/// Counters that the kernel keeps for each thread, and sums when threads end.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Sums {
    /// Exact time on a CPU; up to a tick old while the thread runs.
    pub exec_ns: u64,
    /// User time, sampled by the tick.
    pub user_ns: u64,
    /// System time, sampled by the tick.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// `task_io_accounting`: rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled.
    pub io: [u64; 7],
}

/// One thread.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ThreadRecord {
    /// [`KIND_THREAD`] or [`KIND_PROCESS`].
    pub kind: u32,
    /// Thread id in the initial pid namespace.
    pub tid: u32,
    /// Thread group id in the initial pid namespace.
    pub tgid: u32,
    /// `__state | exit_state`, and [`ON_CPU`].
    pub state: u32,
    /// `PF_*` flags.
    pub flags: u32,
    /// `prio`, kernel scale: 0 to 139.
    pub priority: u32,
    /// `static_prio`, kernel scale: 120 is nice 0.
    pub static_priority: u32,
    /// `SCHED_*` policy.
    pub policy: u32,
    /// Processor it runs on, or last ran on.
    pub processor: u32,
    /// `exit_code` of this thread, as `wait(2)` encodes it.
    pub exit_code: u32,
    /// Command name; bytes after the first NUL mean nothing.
    pub comm: [u8; 16],
    /// Start, nanoseconds on `CLOCK_BOOTTIME`.
    pub start_boottime_ns: u64,
    /// Time spent waiting on a run queue.
    pub run_delay_ns: u64,
    /// Times it was given a CPU.
    pub run_count: u64,
    /// Counters of this thread.
    pub sums: Sums,
}

/// One process: its leader, the sums of its ended threads, and what the thread group shares.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ProcessRecord {
    /// The leader, ended or not.
    pub leader: ThreadRecord,
    /// Thread group id of the parent.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Live threads.
    pub threads: u32,
    /// `signal_struct.group_exit_code`, valid with [`GROUP_EXIT`] in `group_flags`.
    pub group_exit_code: u32,
    /// `signal_struct.flags`.
    pub group_flags: u32,
    /// ProcessRecord id in the innermost pid namespace, 0 when it is the initial one.
    pub ns_pid: u32,
    /// Executions so far (`self_exec_id`): changes whenever the command line does.
    pub exec_id: u32,
    /// Sums of the ended threads.
    pub dead: Sums,
    /// Resident pages: file, anonymous, swap entries, shared memory; per-CPU parts included.
    pub rss_pages: [i64; 4],
    /// Mapped pages.
    pub vsize_pages: u64,
    /// Peak of `vsize_pages` recorded by the kernel.
    pub peak_vsize_pages: u64,
    /// Peak of resident pages recorded by the kernel; of a zombie that of all its images.
    pub peak_rss_pages: u64,
    /// Id of the cgroup in the unified hierarchy (its directory's inode number).
    pub cgroup_id: u64,
    /// 1 when the process has memory of its own, 0 for kernel threads and zombies.
    pub has_memory: u32,
    /// 1 if it is not root's and its user and group may read it: it has no other ids or
    /// capabilities, and is dumpable.
    pub readable_by_owner: u32,
}

/// Bit of `group_flags`: the whole group was ended by `exit_group` or a signal.
pub const GROUP_EXIT: u32 = 4;

impl ThreadRecord {
    /// The process this thread belongs to, if it is the leader.
    pub const fn owner(&self) -> Owner {
        Owner { start_boottime_ns: self.start_boottime_ns, tgid: self.tgid, zero: 0 }
    }
}

impl Sums {
    /// Adds the counters of another thread.
    #[inline(always)]
    pub fn add(&mut self, other: &Self) {
        let sum = u64::wrapping_add;
        self.exec_ns = sum(self.exec_ns, other.exec_ns);
        self.user_ns = sum(self.user_ns, other.user_ns);
        self.system_ns = sum(self.system_ns, other.system_ns);
        self.voluntary_switches = sum(self.voluntary_switches, other.voluntary_switches);
        self.involuntary_switches = sum(self.involuntary_switches, other.involuntary_switches);
        self.minor_faults = sum(self.minor_faults, other.minor_faults);
        self.major_faults = sum(self.major_faults, other.major_faults);
        for (mine, other) in self.io.iter_mut().zip(other.io) {
            *mine = sum(*mine, other);
        }
    }
}

impl ProcessRecord {
    /// All zero.
    pub const ZERO: Self = zerocopy::transmute!([0u8; size_of::<Self>()]);

    /// Clears all memory sizes.
    pub const fn clear_memory(&mut self) {
        self.rss_pages = [0; 4];
        self.vsize_pages = 0;
        self.peak_vsize_pages = 0;
        self.peak_rss_pages = 0;
        self.has_memory = 0;
    }
}

const _: () = assert!(size_of::<Sums>() == 112);
const _: () = assert!(size_of::<ThreadRecord>() == 192);
const _: () = assert!(size_of::<ProcessRecord>() == 408);

offsets! {
    /// What is read of a task and the structures it refers to.
    TaskOffsets in "TASK" {
        pid: "task_struct.pid",
        tgid: "task_struct.tgid",
        // 5.14 renamed it.
        state: "task_struct.__state" | "task_struct.state",
        exit_state: "task_struct.exit_state",
        on_cpu: "task_struct.on_cpu",
        exit_code: "task_struct.exit_code",
        flags: "task_struct.flags",
        prio: "task_struct.prio",
        static_prio: "task_struct.static_prio",
        policy: "task_struct.policy",
        // 5.16 moved it into thread_info on x86.
        cpu: "task_struct.thread_info.cpu" | "task_struct.cpu",
        comm: "task_struct.comm",
        start_boottime: "task_struct.start_boottime" | "task_struct.real_start_time",
        real_parent: "task_struct.real_parent",
        group_leader: "task_struct.group_leader",
        tasks: "task_struct.tasks",
        cred: "task_struct.cred",
        cred_uid: "cred.uid",
        cred_gid: "cred.gid",
        cred_suid: "cred.suid",
        cred_sgid: "cred.sgid",
        cred_euid: "cred.euid",
        cred_egid: "cred.egid",
        cred_permitted: "cred.cap_permitted",
        cred_user_ns: "cred.user_ns",
        user_ns_level: "user_namespace.level",
        user_ns_owner: "user_namespace.owner",
        exec_id: "task_struct.self_exec_id",
        thread_pid: "task_struct.thread_pid",
        pid_level: "pid.level",
        pid_numbers: "pid.numbers",
        upid_size: "sizeof upid",
        upid_nr: "upid.nr",
        exec_runtime: "task_struct.se.sum_exec_runtime",
        run_delay: "task_struct.sched_info.run_delay",
        run_count: "task_struct.sched_info.pcount",
        utime: "task_struct.utime",
        stime: "task_struct.stime",
        nvcsw: "task_struct.nvcsw",
        nivcsw: "task_struct.nivcsw",
        min_flt: "task_struct.min_flt",
        maj_flt: "task_struct.maj_flt",
        ioac: "task_struct.ioac",
        signal: "task_struct.signal",
        sig_live: "signal_struct.live",
        sig_threads: "signal_struct.nr_threads",
        sig_flags: "signal_struct.flags",
        sig_exit_code: "signal_struct.group_exit_code",
        sig_exec_runtime: "signal_struct.sum_sched_runtime",
        sig_utime: "signal_struct.utime",
        sig_stime: "signal_struct.stime",
        sig_nvcsw: "signal_struct.nvcsw",
        sig_nivcsw: "signal_struct.nivcsw",
        sig_min_flt: "signal_struct.min_flt",
        sig_maj_flt: "signal_struct.maj_flt",
        sig_ioac: "signal_struct.ioac",
        sig_maxrss: "signal_struct.maxrss",
        io_rchar: "task_io_accounting.rchar",
        io_wchar: "task_io_accounting.wchar",
        io_syscr: "task_io_accounting.syscr",
        io_syscw: "task_io_accounting.syscw",
        io_read_bytes: "task_io_accounting.read_bytes",
        io_write_bytes: "task_io_accounting.write_bytes",
        io_cancelled: "task_io_accounting.cancelled_write_bytes",
        mm: "task_struct.mm",
        mm_rss_stat: "mm_struct.rss_stat",
        // Up to 6.1 the counts are plain; from 6.2 each is a per-CPU counter.
        mm_rss_plain: "mm_struct.rss_stat.count",
        percpu_size: "sizeof percpu_counter",
        percpu_count: "percpu_counter.count",
        percpu_parts: "percpu_counter.counters",
        mm_flags: "mm_struct.flags",
        mm_total_vm: "mm_struct.total_vm",
        mm_hiwater_vm: "mm_struct.hiwater_vm",
        mm_hiwater_rss: "mm_struct.hiwater_rss",
        cgroups: "task_struct.cgroups",
        dfl_cgrp: "css_set.dfl_cgrp",
        cgroup_kn: "cgroup.kn",
        kn_id: "kernfs_node.id",
    }
}

offsets! {
    /// Where an array map keeps the base of its per-CPU elements.
    ArrayOffsets in "ARRAY" {
        pptrs: "bpf_array.pptrs",
    }
}

/// Name of the constant with the number of possible CPUs whose parts of the RSS are added; with 0
/// only the batched count is read.
pub const RSS_CPUS: &str = "RSS_CPUS";
/// Maximum number of CPUs whose parts of the RSS are added: on larger machines four reads per CPU
/// and process would cost more than the rest of a snapshot, so the RSS is reported as approximate.
pub const MAX_EXACT_CPUS: usize = 64;
