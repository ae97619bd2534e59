//! Reader of `task_struct`, `signal_struct` and `cred`.

use super::{constant, load, probe, rss};
use crate::abi::Owner;
use crate::abi::offset::ABSENT;
use crate::abi::task::{
    KIND_PROCESS, KIND_THREAD, ON_CPU, ProcessRecord, Sums, TaskOffsets, ThreadRecord,
};
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_current_task_btf};

// The two lowest bits of `mm_struct.flags` (include/linux/sched/coredump.h).
const MMF_DUMPABLE_MASK: u64 = 3;
const SUID_DUMP_USER: u64 = 1;

/// Set by the loader.
#[unsafe(no_mangle)]
pub(super) static TASK: TaskOffsets = TaskOffsets::ABSENT;

/// In `task_struct.flags`: a kernel thread.
const PF_KTHREAD: u32 = 0x0020_0000;
/// In `task_struct.flags`: it is ending.
const PF_EXITING: u32 = 4;

/// A kernel task, as the verifier's typed pointer.
#[derive(Clone, Copy)]
pub struct Task(*const u8);

/// What a process has apart from its tasks. Each pointer is loaded once: where a program loads one
/// from a task, the verifier looks up to four names among all types of the kernel, 1 ms each time
/// that it gets there.
#[derive(Clone, Copy)]
pub struct Parts {
    signal: *const u8,
    access: Access,
}

/// What decides which users may read a process.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Access {
    cred: *const u8,
    /// Null without memory.
    mm: *const u8,
}

macro_rules! member {
    ($(#[$doc:meta] $name:ident: $type:ty = $offset:ident,)+) => {
        $(#[$doc]
        #[inline(always)]
        pub fn $name(self) -> $type {
            load(self.0, constant!(TASK.$offset))
        })+
    };
}

impl Task {
    /// Wraps a pointer passed to the program by the kernel.
    #[inline(always)]
    pub fn from_kernel(pointer: *const u8) -> Option<Self> {
        if pointer.is_null() { None } else { Some(Self(pointer)) }
    }

    /// Wraps a tracepoint argument that is a task.
    #[inline(always)]
    pub fn from_argument(argument: u64) -> Option<Self> {
        Self::from_kernel(argument as *const u8)
    }

    /// The current task; in an interrupt, the interrupted one.
    #[inline(always)]
    pub fn current() -> Self {
        // SAFETY: the helper has no arguments and never returns null.
        Self(unsafe { bpf_get_current_task_btf() }.cast())
    }

    /// The pointer, for helpers that take a task.
    #[inline(always)]
    pub fn as_ptr(self) -> *const u8 {
        self.0
    }

    member! {
        /// Thread id in the initial pid namespace.
        tid: u32 = pid,
        /// Thread group id in the initial pid namespace.
        tgid: u32 = tgid,
        /// `PF_*` flags.
        flags: u32 = flags,
        /// Start on `CLOCK_BOOTTIME`.
        start_boottime_ns: u64 = start_boottime,
        /// Time on a CPU; up to the present as the task is switched out.
        exec_ns: u64 = exec_runtime,
        /// Time spent waiting on a run queue.
        run_delay_ns: u64 = run_delay,
        /// Times it was given a CPU.
        run_count: u64 = run_count,
        /// `TASK_*` bits: whether it runs, or what it waits for.
        state: u32 = state,
        /// Exit code as encoded by wait(2).
        exit_code: u32 = exit_code,
    }

    /// The leader of its thread group.
    #[inline(always)]
    pub fn leader(self) -> Self {
        Self(load(self.0, constant!(TASK.group_leader)))
    }

    /// Its parent.
    #[inline(always)]
    pub fn parent(self) -> Self {
        Self(load(self.0, constant!(TASK.real_parent)))
    }

    /// Whether it leads its thread group.
    #[inline(always)]
    pub fn is_leader(self) -> bool {
        self.tid() == self.tgid()
    }

    /// Whether it is ending, or has ended.
    #[inline(always)]
    pub fn is_exiting(self) -> bool {
        self.flags() & PF_EXITING != 0
    }

    /// The process it belongs to.
    #[inline(always)]
    pub fn owner(self) -> Owner {
        let leader = self.leader();
        Owner { start_boottime_ns: leader.start_boottime_ns(), tgid: self.tgid(), zero: 0 }
    }

    /// The current process, where the verifier knows no types (5.10 has no typed current task, and
    /// function probes have none at all).
    #[inline(always)]
    pub fn current_owner_untyped() -> Owner {
        // SAFETY: the helper has no arguments.
        let task = unsafe { bpf_get_current_task() } as *const u8;
        let leader: *const u8 = probe(task, constant!(TASK.group_leader));
        Owner {
            start_boottime_ns: probe(leader, constant!(TASK.start_boottime)),
            tgid: probe(task, constant!(TASK.tgid)),
            zero: 0,
        }
    }

    /// The same, unless it is a kernel thread.
    #[inline(always)]
    pub fn current_user_process() -> Option<Owner> {
        // SAFETY: the helper has no arguments.
        let task = unsafe { bpf_get_current_task() } as *const u8;
        let flags: u32 = probe(task, constant!(TASK.flags));
        let owner = Self::current_owner_untyped();
        if flags & PF_KTHREAD != 0 || owner.tgid == 0 { None } else { Some(owner) }
    }

    #[inline(always)]
    fn signal(self) -> *const u8 {
        load(self.0, constant!(TASK.signal))
    }

    /// Whether the last thread of its group is exiting or has exited.
    #[inline(always)]
    pub fn group_is_dead(self) -> bool {
        load::<u32>(self.signal(), constant!(TASK.sig_live)) == 0
    }

    /// CPU time of the threads of its group that the kernel has added up: those that ended.
    #[inline(always)]
    pub fn group_exec_ns(self) -> u64 {
        load(self.signal(), constant!(TASK.sig_exec_runtime))
    }

    /// Peak resident set of all its images, in pages; set when the last thread exits.
    #[inline(always)]
    pub fn max_rss_pages(self) -> u64 {
        load(self.signal(), constant!(TASK.sig_maxrss))
    }

    /// Peak resident set of its present memory, in pages; none without memory, or if the parts of
    /// the CPUs cannot be added.
    #[inline(always)]
    pub fn resident_pages(self) -> Option<u64> {
        let mm: *const u8 = load(self.0, constant!(TASK.mm));
        if mm.is_null() || !rss::is_exact(&TASK) {
            return None;
        }
        let [file, anonymous, _swap, shared] = rss::pages(mm, &TASK);
        let now = (file + anonymous + shared).max(0).cast_unsigned();
        Some(now.max(load(mm, constant!(TASK.mm_hiwater_rss))))
    }

    /// Fills the record of one thread.
    #[inline(always)]
    pub fn read_thread(self, out: &mut ThreadRecord) {
        out.kind = if self.is_leader() { KIND_PROCESS } else { KIND_THREAD };
        out.tid = self.tid();
        out.tgid = self.tgid();
        let state: u32 = load(self.0, constant!(TASK.state));
        let exit_state: u32 = load(self.0, constant!(TASK.exit_state));
        // Before the counters: what has left its processor is counted.
        out.state = state | exit_state | self.on_cpu();
        out.flags = self.flags();
        out.priority = load(self.0, constant!(TASK.prio));
        out.static_priority = load(self.0, constant!(TASK.static_prio));
        out.policy = load(self.0, constant!(TASK.policy));
        out.processor = load(self.0, constant!(TASK.cpu));
        out.exit_code = load(self.0, constant!(TASK.exit_code));
        out.comm = self.comm();
        out.start_boottime_ns = self.start_boottime_ns();
        out.run_delay_ns = self.run_delay_ns();
        out.run_count = self.run_count();
        out.sums = self.sums();
    }

    /// `ON_CPU`, or zero. A kernel without SMP does not record it.
    #[inline(always)]
    fn on_cpu(self) -> u32 {
        if constant!(TASK.on_cpu) == ABSENT {
            return 0;
        }
        load::<u32>(self.0, constant!(TASK.on_cpu)) * ON_CPU
    }

    /// Its command name, by two loads, which are faster than the helper.
    #[inline(always)]
    fn comm(self) -> [u8; 16] {
        let at = constant!(TASK.comm);
        let halves: [u64; 2] = [load(self.0, at), load(self.0, at + 8)];
        zerocopy::transmute!(halves)
    }

    /// Counters of this thread.
    #[inline(always)]
    pub fn sums(self) -> Sums {
        Sums {
            exec_ns: load(self.0, constant!(TASK.exec_runtime)),
            user_ns: load(self.0, constant!(TASK.utime)),
            system_ns: load(self.0, constant!(TASK.stime)),
            voluntary_switches: load(self.0, constant!(TASK.nvcsw)),
            involuntary_switches: load(self.0, constant!(TASK.nivcsw)),
            minor_faults: load(self.0, constant!(TASK.min_flt)),
            major_faults: load(self.0, constant!(TASK.maj_flt)),
            io: io(self.0, constant!(TASK.ioac)),
        }
    }

    /// The parts of its process.
    #[inline(always)]
    pub fn parts(self) -> Parts {
        Parts { signal: self.signal(), access: self.access() }
    }

    /// What decides which users may read it.
    #[inline(always)]
    pub fn access(self) -> Access {
        Access { cred: load(self.0, constant!(TASK.cred)), mm: load(self.0, constant!(TASK.mm)) }
    }

    /// Prefetches what reading a process needs, and the next task of the iteration. On a busy node
    /// most of a reading is cache misses; the processor overlaps misses that are close together.
    #[inline(always)]
    pub fn fetch(self, Parts { signal, access: Access { cred, mm } }: Parts) {
        let _: u32 = load(signal, constant!(TASK.sig_threads));
        let _: u64 = load(signal, constant!(TASK.sig_utime));
        let _: u64 = load(signal, constant!(TASK.sig_maj_flt));
        let _: u32 = load(cred, constant!(TASK.cred_uid));
        if !mm.is_null() {
            let _: u64 = load(mm, constant!(TASK.mm_total_vm));
            rss::fetch(mm, &TASK);
        }
        self.fetch_next();
    }

    /// The next process in the order of creation, which is mostly that of the iteration. Its
    /// contents are not used, so it may be the wrong one, or be freed.
    #[inline(always)]
    fn fetch_next(self) {
        let here: *const u8 = load(self.0, constant!(TASK.tasks));
        let next = here.wrapping_sub(constant!(TASK.tasks) as usize);
        let pid: *const u8 = probe(next, constant!(TASK.thread_pid));
        let _: u32 = probe(pid, constant!(TASK.pid_level));
    }

    /// Fills what the thread group shares; `self` is the leader. Not the `leader` record.
    #[inline(always)]
    pub fn read_group(self, parts: Parts, out: &mut ProcessRecord) {
        let Parts { signal, access: Access { cred, mm } } = parts;
        // Pointers first: after a branch the verifier checks each load once for each way there.
        out.ppid = self.parent().tgid();
        out.cgroup_id = self.cgroup_id();
        let pid: *const u8 = load(self.0, constant!(TASK.thread_pid));
        out.threads = load(signal, constant!(TASK.sig_threads));
        out.group_flags = load(signal, constant!(TASK.sig_flags));
        out.group_exit_code = load(signal, constant!(TASK.sig_exit_code));
        out.dead = Sums {
            exec_ns: load(signal, constant!(TASK.sig_exec_runtime)),
            user_ns: load(signal, constant!(TASK.sig_utime)),
            system_ns: load(signal, constant!(TASK.sig_stime)),
            voluntary_switches: load(signal, constant!(TASK.sig_nvcsw)),
            involuntary_switches: load(signal, constant!(TASK.sig_nivcsw)),
            minor_faults: load(signal, constant!(TASK.sig_min_flt)),
            major_faults: load(signal, constant!(TASK.sig_maj_flt)),
            io: io(signal, constant!(TASK.sig_ioac)),
        };
        out.uid = load(cred, constant!(TASK.cred_uid));
        out.gid = load(cred, constant!(TASK.cred_gid));
        // Root may read all processes anyway, so its own ones need no check.
        let readable = out.uid != 0 && has_only_ids(cred, out.uid, out.gid) && dumpable(mm);
        out.readable_by_owner = u32::from(readable);
        out.exec_id = load(self.0, constant!(TASK.exec_id));
        out.ns_pid = ns_pid(pid);
    }

    /// Fills the sizes of its memory, all zero when it has none.
    #[inline(always)]
    pub fn read_memory(self, parts: Parts, out: &mut ProcessRecord) {
        let mm = parts.access.mm;
        if mm.is_null() {
            // Its loads would fault and give zero; but 5.10 crashes on a fault in a program with
            // functions (fixed in 6.4 by 0108a4e9f358, and not everywhere before).
            out.clear_memory();
            out.peak_rss_pages = load(parts.signal, constant!(TASK.sig_maxrss));
            return;
        }
        out.has_memory = 1;
        out.rss_pages = rss::pages(mm, &TASK);
        out.vsize_pages = load(mm, constant!(TASK.mm_total_vm));
        out.peak_vsize_pages = load(mm, constant!(TASK.mm_hiwater_vm));
        out.peak_rss_pages = load(mm, constant!(TASK.mm_hiwater_rss));
    }

    #[inline(always)]
    fn cgroup_id(self) -> u64 {
        let set: *const u8 = load(self.0, constant!(TASK.cgroups));
        let cgroup: *const u8 = load(set, constant!(TASK.dfl_cgrp));
        let node: *const u8 = load(cgroup, constant!(TASK.cgroup_kn));
        load(node, constant!(TASK.kn_id))
    }
}

impl Access {
    /// The user and group id that may read the process; `u32::MAX` twice, if it has other ids or
    /// capabilities, or is not dumpable.
    #[inline(always)]
    pub fn credentials(self) -> [u32; 2] {
        let Self { cred, mm } = self;
        let credentials =
            [load(cred, constant!(TASK.cred_uid)), load(cred, constant!(TASK.cred_gid))];
        let [uid, gid] = credentials;
        if has_only_ids(cred, uid, gid) && dumpable(mm) { credentials } else { [u32::MAX; 2] }
    }
}

/// Process id in the innermost pid namespace of a `struct pid`, 0 when that is the initial one.
#[inline(always)]
fn ns_pid(pid: *const u8) -> u32 {
    if pid.is_null() {
        return 0;
    }
    let level: u32 = load(pid, constant!(TASK.pid_level));
    if level == 0 || constant!(TASK.upid_nr) == ABSENT {
        return 0;
    }
    let offset =
        constant!(TASK.pid_numbers) + constant!(TASK.upid_nr) + level * constant!(TASK.upid_size);
    probe(pid, offset)
}

/// Whether a memory is dumpable; no memory is.
#[inline(always)]
fn dumpable(mm: *const u8) -> bool {
    if mm.is_null() {
        return true;
    }
    // Stored elsewhere in this kernel: only root may read it.
    if constant!(TASK.mm_flags) == ABSENT {
        return false;
    }
    load::<u64>(mm, constant!(TASK.mm_flags)) & MMF_DUMPABLE_MASK == SUID_DUMP_USER
}

/// Whether these credentials grant nothing beyond this user and group: the conditions of
/// `__ptrace_may_access` and `cap_ptrace_access_check` for a caller without capabilities. The
/// creator of a user namespace has all capabilities in it, so those do not count.
#[inline(always)]
fn has_only_ids(cred: *const u8, uid: u32, gid: u32) -> bool {
    let is = |at, id| load::<u32>(cred, at) == id;
    let one = is(constant!(TASK.cred_euid), uid)
        && is(constant!(TASK.cred_suid), uid)
        && is(constant!(TASK.cred_egid), gid)
        && is(constant!(TASK.cred_sgid), gid);
    if !one || load::<u64>(cred, constant!(TASK.cred_permitted)) == 0 {
        return one;
    }
    let space: *const u8 = load(cred, constant!(TASK.cred_user_ns));
    load::<u32>(space, constant!(TASK.user_ns_level)) == 1
        && load::<u32>(space, constant!(TASK.user_ns_owner)) == uid
}

/// The seven counters of the `task_io_accounting` at offset `at` of `base`.
#[inline(always)]
fn io(base: *const u8, at: u32) -> [u64; 7] {
    if constant!(TASK.io_rchar) == ABSENT || constant!(TASK.io_read_bytes) == ABSENT {
        return [0; 7]; // Built without CONFIG_TASK_XACCT or CONFIG_TASK_IO_ACCOUNTING.
    }
    [
        load(base, at + constant!(TASK.io_rchar)),
        load(base, at + constant!(TASK.io_wchar)),
        load(base, at + constant!(TASK.io_syscr)),
        load(base, at + constant!(TASK.io_syscw)),
        load(base, at + constant!(TASK.io_read_bytes)),
        load(base, at + constant!(TASK.io_write_bytes)),
        load(base, at + constant!(TASK.io_cancelled)),
    ]
}
