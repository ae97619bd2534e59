//! An event, and the state of the rule programs that run for it.
//!
//! In: the BPF program's context, the task and its arguments. Out: [`Frame`], whose registers the
//! instructions read and write.

use super::clock;
use core::ffi::c_void;
use core::ptr::null;
use monitor_ebpf::abi::rule::{
    EncodedProgram, MAX_PARAMETERS, MAX_PENDING, MAX_REGS, PROGRAMS_PER_HOOK, hook,
};
use monitor_ebpf::kernel::scratch::Scratch;
use monitor_ebpf::kernel::task::{Access, Task};

/// Arguments of an event.
pub const ARGUMENTS: usize = 6;
/// Slots for them: a power of two, so that a mask bounds an index for the verifier.
pub(super) const ARGUMENT_SLOTS: usize = 8;

/// An event, and the state of the programs that run for it.
#[repr(C)]
pub struct Frame {
    /// Context of the BPF program.
    pub context: *mut c_void,
    /// Thread of the event.
    pub task: Task,
    /// Its thread group id.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// A second process of the event, or the same one.
    pub other: u32,
    /// Whether task storage may be allocated: not while a run queue is locked.
    pub may_allocate: u32,
    /// Whether the thread is the current one and next executes an instruction in user mode.
    pub may_stop: u32,
    pad: u32,
    /// When its process started.
    pub start_ns: u64,
    /// When that second process started; 0 if there is none.
    pub other_start_ns: u64,
    /// Which users may read the process. Loaded here and not by an instruction: the verifier checks
    /// a load once for each way to it.
    pub access: Access,
    /// Address of the probed instruction, or 0.
    pub ip: u64,
    /// Stack pointer, or 0.
    pub sp: u64,
    /// Time of the event, once it was read; 0 before.
    at_ns: u64,
    /// Arguments that programs can read.
    pub arguments: [u64; ARGUMENT_SLOTS],
    pub(super) run: Run,
}

/// A run of a program.
#[repr(C)]
pub(super) struct Run {
    pub(super) program: *const EncodedProgram,
    pub(super) regs: [u64; MAX_REGS],
    /// Number of the program.
    pub(super) number: u32,
    /// Index of the next instruction.
    pub(super) at: u32,
    /// Row of the hook whose programs run, and index of the next of them.
    pub(super) hook: u32,
    pub(super) next: u32,
    /// Number of raised events, and those of them that are pending.
    pub(super) raised: u32,
    pub(super) n_pending: u32,
    pub(super) pending: [Raised; MAX_PENDING],
}

impl Run {
    /// Continues with the first instruction of a program.
    #[inline(always)]
    pub(super) fn start(&mut self, program: *const EncodedProgram, number: u32) {
        self.program = program;
        set_pair(&mut self.number, number, &mut self.at, unknown_zero() as u32);
    }

    /// Continues with the first program of a hook.
    #[inline(always)]
    pub(super) fn start_hook(&mut self, hook: u32) {
        set_pair(&mut self.hook, hook, &mut self.next, unknown_zero() as u32);
    }
}

/// Sets two members that share a word, in this order: after the other order the word is another
/// state for the verifier, because it knows the first half.
#[inline(always)]
fn set_pair(first: &mut u32, value: u32, second: &mut u32, second_value: u32) {
    // SAFETY: a reference is valid and aligned.
    unsafe { core::ptr::write_volatile(first, value) };
    // SAFETY: as above.
    unsafe { core::ptr::write_volatile(second, second_value) };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Raised {
    pub(super) hook: u64,
    pub(super) parameters: [u64; MAX_PARAMETERS],
}

/// How a run continues after an instruction.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Flow {
    Continue,
    End,
}

/// Never written, which the verifier cannot know.
static ZERO: Scratch<u64> = Scratch::new(0);

/// Zero, as a value unknown to the verifier. The verifier checks a step for each combination of
/// constants in the counters of a run; unknown values are one state. Members that a branch reads
/// are set by a read of their own: copies have one id, a branch on one of them is a branch on all,
/// and a state with equal ids is not the one without (`check_scalar_ids` in kernel/bpf/verifier.c).
#[inline(always)]
pub fn unknown_zero() -> u64 {
    // SAFETY: the static lives as long as the object.
    unsafe { core::ptr::read_volatile(ZERO.get()) }
}

#[inline(always)]
fn clear<const N: usize>(words: &mut [u64; N]) {
    words.iter_mut().for_each(set);
}

#[inline(always)]
fn set(word: &mut u64) {
    // SAFETY: a reference is valid and aligned.
    unsafe { core::ptr::write_volatile(word, unknown_zero()) };
}

/// Copies word by word; the compiler would call a function that copies byte by byte.
#[inline(always)]
pub(super) fn copy<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for (to, from) in to.iter_mut().zip(from) {
        // SAFETY: a reference is valid and aligned.
        unsafe { core::ptr::write_volatile(to, *from) };
    }
}

impl Frame {
    /// An event of a task.
    #[inline(always)]
    pub fn new(context: *mut c_void, task: Task, arguments: [u64; ARGUMENTS]) -> Self {
        Self::with_position(context, task, arguments, (0, 0))
    }

    /// The same, with instruction and stack pointer.
    #[inline(always)]
    pub(super) fn with_position(
        context: *mut c_void,
        task: Task,
        arguments: [u64; ARGUMENTS],
        (ip, sp): (u64, u64),
    ) -> Self {
        let pid = task.tgid();
        let zero = unknown_zero();
        // For constant zeroes the compiler would call a function that clears byte by byte.
        let [a, b, c, d, e, f] = arguments.map(|it| it | zero);
        Self {
            context,
            task,
            pid,
            tid: task.tid(),
            other: pid,
            may_allocate: 1,
            may_stop: unknown_zero() as u32,
            pad: zero as u32,
            start_ns: task.leader().start_boottime_ns(),
            other_start_ns: unknown_zero(),
            access: task.access(),
            ip: ip | zero,
            sp: sp | zero,
            at_ns: unknown_zero(),
            arguments: [a, b, c, d, e, f, unknown_zero(), unknown_zero()],
            run: Run {
                program: null(),
                regs: [zero; MAX_REGS],
                number: zero as u32,
                at: unknown_zero() as u32,
                hook: hook::NONE,
                next: PROGRAMS_PER_HOOK as u32 + unknown_zero() as u32,
                raised: unknown_zero() as u32,
                n_pending: unknown_zero() as u32,
                pending: [Raised { hook: zero, parameters: [zero; MAX_PARAMETERS] }; MAX_PENDING],
            },
        }
    }

    /// Sets each word of a run to a zero with an id of its own, in place: see [`unknown_zero`].
    #[inline(always)]
    pub(super) fn clear_run(&mut self) {
        clear(&mut self.run.regs);
        for raised in &mut self.run.pending {
            clear(&mut raised.parameters);
        }
    }

    /// Sets the arguments from this one on likewise.
    #[inline(always)]
    pub fn clear_arguments<const FIRST: usize>(&mut self) {
        for n in FIRST..ARGUMENT_SLOTS {
            set(&mut self.arguments[n]);
        }
    }

    /// Time of the event: the clock is read once for all its programs.
    #[inline(always)]
    pub(super) fn now_ns(&mut self) -> u64 {
        if self.at_ns != 0 {
            return self.at_ns;
        }
        let now_ns = clock::now_ns();
        // Another id than that of the result, which stays in a register.
        self.at_ns = now_ns | unknown_zero();
        now_ns
    }

    #[inline(always)]
    pub(super) fn reg(&self, number: u8) -> u64 {
        self.run.regs[usize::from(number) % MAX_REGS]
    }

    #[inline(always)]
    pub(super) fn set_reg(&mut self, number: u8, value: u64) {
        self.run.regs[usize::from(number) % MAX_REGS] = value;
    }
}
