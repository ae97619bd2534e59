//! Rules: BPF programs at library calls, process lifecycle, signals and the scheduler that run rule
//! programs.
//!
//! One BPF program per kind of hook: the rule program of a probe is its cookie, those of a
//! tracepoint are in its row of `HOOKS`. Loaded and attached while a rule program needs it; fork
//! and exit also keep the process sets, and have a small program for when they do nothing else.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(target_arch = "bpf")]
mod interpret;

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use crate::interpret::{Frame, delivery, process_sets, register, unknown_zero};
    use aya_ebpf::helpers::generated::bpf_get_attach_cookie;
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::LruHashMap;
    use core::ffi::c_void;
    use monitor_ebpf::abi::rule::hook;
    use monitor_ebpf::kernel::delivery::{EndedBySignal, delivered, has_handler};
    use monitor_ebpf::kernel::probe;
    use monitor_ebpf::kernel::task::Task;

    #[map]
    static ENDED_BY_SIGNAL: EndedBySignal = LruHashMap::with_max_entries(1024, 0);

    /// Where `struct mce` has its members: the kernel's interface with mcelog(8)
    /// (`arch/x86/include/uapi/asm/mce.h`), to which members are only added.
    mod mce {
        pub const STATUS: u32 = 0;
        pub const BANK: u32 = 65;
        /// `extcpu`.
        pub const CPU: u32 = 68;
    }

    /// The registers of a probed call.
    type Registers = *const u8;

    /// The rule program of a probe.
    #[inline(always)]
    fn cookie(registers: Registers) -> u32 {
        // SAFETY: the helper takes what the program was called with.
        unsafe { bpf_get_attach_cookie(registers.cast_mut().cast()) as u32 }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn call(registers: Registers) -> u32 {
        register::entry(registers).run_program(cookie(registers));
        0
    }

    /// At a return instruction.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn call_end(registers: Registers) -> u32 {
        let mut frame = register::before_return(registers);
        frame.clear_arguments::<1>();
        frame.run_program(cookie(registers));
        0
    }

    /// After a return, by a replaced return address.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uretprobe")]
    fn call_return(registers: Registers) -> u32 {
        let mut frame = register::exit(registers);
        frame.clear_arguments::<1>();
        frame.run_program(cookie(registers));
        0
    }

    /// At a breakpoint of the processor: before an instruction, or after an access to data.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "perf_event")]
    fn hardware_breakpoint(registers: Registers) -> u32 {
        register::entry(registers).run_program(cookie(registers));
        0
    }

    /// An empty probe: the baseline of the bench.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn empty_call(_: Registers) -> u32 {
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uretprobe")]
    fn empty_return(_: Registers) -> u32 {
        0
    }

    /// The arguments of a tracepoint as context for helpers.
    #[inline(always)]
    fn context<const N: usize>(arguments: &[u64; N]) -> *mut c_void {
        arguments.as_ptr().cast_mut().cast()
    }

    /// `(parent, child)`, in the parent's context: parent, child, child's thread, and when the
    /// parent started.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_fork")]
    fn fork(arguments: &[u64; 2]) -> i32 {
        let (Some(parent), Some(child)) =
            (Task::from_argument(arguments[0]), Task::from_argument(arguments[1]))
        else {
            return 0;
        };
        if !child.is_leader() {
            return 0; // A new thread, not a new process.
        }
        let (parent_id, child_id) = (parent.tgid(), child.tgid());
        let start = parent.leader().start_boottime_ns();
        process_sets::inherit((parent_id, start), (child_id, child.start_boottime_ns()));
        let ids = [u64::from(parent_id), u64::from(child_id), u64::from(child.tid()), start, 0, 0];
        let mut frame = Frame::new(context(arguments), child, ids);
        (frame.other, frame.other_start_ns) = (parent_id, start);
        frame.run_hook(hook::FORK);
        0
    }

    /// The same without rule programs: it only keeps the process sets.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_fork")]
    fn fork_of_sets(&[parent, child]: &[u64; 2]) -> i32 {
        let (Some(parent), Some(child)) = (Task::from_argument(parent), Task::from_argument(child))
        else {
            return 0;
        };
        if child.is_leader() {
            let start = parent.leader().start_boottime_ns();
            let child = (child.tgid(), child.start_boottime_ns());
            process_sets::inherit((parent.tgid(), start), child);
        }
        0
    }

    /// `(task, old pid, program)`: the pid.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exec")]
    fn exec(arguments: &[u64; 3]) -> i32 {
        if let Some(task) = Task::from_argument(arguments[0]) {
            process_sets::forget_errno(task.tgid());
            let ids = [u64::from(task.tgid()), 0, 0, 0, 0, 0];
            Frame::new(context(arguments), task, ids).run_hook(hook::EXEC);
        }
        0
    }

    /// `(task, …)`: the pid and the exit code as encoded by wait(2), when its last thread ends; pid
    /// and thread, when the first thread or one after it ends.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exit")]
    fn exit(arguments: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(arguments[0]) else { return 0 };
        let pid = task.tgid();
        let is_dead = task.group_is_dead();
        if !is_dead && !task.leader().is_exiting() {
            return 0;
        }
        // Unknown to the verifier, and one run: it checks the interpreter once.
        let is_last = u64::from(is_dead) + unknown_zero();
        let value = choose(is_last, task.exit_code(), task.tid());
        let row = choose(is_last, hook::EXIT, hook::LEADERLESS_EXIT);
        Frame::new(context(arguments), task, [u64::from(pid), value, 0, 0, 0, 0])
            .run_hook(row as u32);
        if is_last == 1 {
            process_sets::remove(pid);
        }
        0
    }

    /// The same without rule programs: it only keeps the process sets.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exit")]
    fn exit_of_sets(&[exiting]: &[u64; 1]) -> i32 {
        if let Some(task) = Task::from_argument(exiting)
            && task.group_is_dead()
        {
            process_sets::remove(task.tgid());
        }
        0
    }

    /// The first value for 1, the second for 0, without a branch.
    #[inline(always)]
    fn choose(is_first: u64, first: u32, second: u32) -> u64 {
        u64::from(first) * is_first + u64::from(second) * (1 - is_first)
    }

    /// `(signal, info, task, is for all, result)`: target, signal, sender, result.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/signal_generate")]
    fn signal_generate(arguments: &[u64; 5]) -> i32 {
        let Some(target) = Task::from_argument(arguments[2]) else { return 0 };
        let sender = u64::from(Task::current().tgid());
        let pid = u64::from(target.tgid());
        let values = [pid, arguments[0], sender, u64::from(arguments[4] as u32), 0, 0];
        let mut frame = Frame::new(context(arguments), target, values);
        frame.may_allocate = 0; // The target's signals are locked.
        frame.run_hook(hook::SIGNAL_GENERATE);
        0
    }

    /// `(signal, info, action)`, in the context of the receiver: pid, signal.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/signal_deliver")]
    fn signal_deliver(arguments: &[u64; 3]) -> i32 {
        let task = Task::current();
        if delivery::is_own_stop(arguments[0], arguments[1]) {
            return 0;
        }
        let [number, _, action] = *arguments;
        let Some(number) = delivered(&ENDED_BY_SIGNAL, number as u32, action) else { return 0 };
        let values = [u64::from(task.tgid()), u64::from(number), 0, 0, 0, 0];
        let mut frame = Frame::new(context(arguments), task, values);
        frame.may_allocate = 0;
        // Without a handler it ends the process or is ignored.
        frame.may_stop = u32::from(has_handler(action)) + unknown_zero() as u32;
        frame.run_hook(hook::SIGNAL_DELIVER);
        0
    }

    /// `(preempt, prev, next, …)`, with the run queue locked: both processes, both threads,
    /// whether the first was preempted, and its state; then when the second one's process started.
    /// The event belongs to the first.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_switch")]
    fn switch(arguments: &[u64; 3]) -> i32 {
        let (Some(prev), Some(next)) =
            (Task::from_argument(arguments[1]), Task::from_argument(arguments[2]))
        else {
            return 0;
        };
        let values = [
            u64::from(prev.tgid()),
            u64::from(next.tgid()),
            u64::from(prev.tid()),
            u64::from(next.tid()),
            arguments[0] & 1,
            u64::from(prev.state()),
        ];
        let mut frame = Frame::new(context(arguments), prev, values);
        frame.other = next.tgid();
        frame.other_start_ns = next.leader().start_boottime_ns();
        frame.arguments[6] = frame.other_start_ns;
        frame.may_allocate = 0;
        frame.run_hook(hook::SWITCH);
        0
    }

    /// `(task)`: the process and the thread that are woken.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_wakeup")]
    fn wakeup(arguments: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(arguments[0]) else { return 0 };
        let values = [u64::from(task.tgid()), u64::from(task.tid()), 0, 0, 0, 0];
        let mut frame = Frame::new(context(arguments), task, values);
        frame.may_allocate = 0;
        frame.run_hook(hook::WAKEUP);
        0
    }

    /// `(task, user)`: the pid of a process that is killed because memory is used up. Before Linux
    /// 6.10 the tracepoint has a number in place of the task, and the verifier refuses the program.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/mark_victim")]
    fn oom_kill(arguments: &[u64; 1]) -> i32 {
        if let Some(task) = Task::from_argument(arguments[0]) {
            let ids = [u64::from(task.tgid()), 0, 0, 0, 0, 0];
            let mut frame = Frame::new(context(arguments), task, ids);
            frame.may_allocate = 0;
            frame.run_hook(hook::OOM_KILL);
        }
        0
    }

    /// `(struct mce *)`: the processor and the bank that recorded a machine check, and its status.
    /// From Linux 6.13 on the argument has this structure at its start. The thread that reports it
    /// has nothing to do with it. A kernel without machine checks has no such tracepoint.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/mce_record")]
    fn machine_check(arguments: &[u64; 1]) -> i32 {
        let check = arguments[0] as *const u8;
        let status: u64 = probe(check, mce::STATUS);
        let bank: u8 = probe(check, mce::BANK);
        let cpu: u32 = probe(check, mce::CPU);
        let values = [u64::from(cpu), u64::from(bank), status, 0, 0, 0];
        let mut frame = Frame::new(context(arguments), Task::current(), values);
        frame.may_allocate = 0;
        frame.run_hook(hook::MACHINE_CHECK);
        0
    }

    monitor_ebpf::object!();
}
