//! Rules: one interpreter for all programs of `bin/rule`.
//!
//! In: something that happened, as a [`Frame`], and the first list or hook to run. Out: cells,
//! histograms and records. A program runs with preemption on, so another one may run on the same
//! CPU in between: what a run needs is on its own stack, and what is counted is added atomically.

mod begin;
mod cell;
mod clock;
pub mod delivery;
mod hold;
mod level;
pub mod member;
mod memory;
pub mod register;
mod spread;
mod tell;
mod timer;
mod trace;

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;
use core::ptr::null;
use monitor_ebpf::abi::rule::op::{self, Op};
use monitor_ebpf::abi::rule::{
    LISTS_PER_HOOK, List, MAX_OPS, MAX_PARAMETERS, MAX_PENDING, MAX_STEPS, MAX_VALUES, hook,
};
use monitor_ebpf::kernel::scratch::Scratch;
use monitor_ebpf::kernel::task::Task;

/// Arguments of an event.
pub const ARGUMENTS: usize = 6;
/// Places for them: a power of two, so that a mask bounds an index, as the verifier wants it.
const PLACES: usize = 8;

/// What happened, and how far its lists are.
#[repr(C)]
pub struct Frame {
    /// What the program was called with.
    pub context: *mut c_void,
    /// The thread that it is about.
    pub task: Task,
    /// Its thread group id.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Another process that it is about as well, or the same.
    pub other: u32,
    /// Whether storage may be made here: not where a run queue is locked.
    pub may_allocate: u32,
    /// Whether who it is about runs here, and will run an instruction of its own next.
    pub may_hold: u32,
    pad: u32,
    /// Address of the probed instruction, or 0.
    pub ip: u64,
    /// Stack pointer, or 0.
    pub sp: u64,
    /// When it happened, once somebody has asked; 0 before.
    at_ns: u64,
    /// What a list can ask for.
    pub arguments: [u64; PLACES],
    run: Run,
}

/// The run of a list.
#[repr(C)]
struct Run {
    list: *const List,
    values: [u64; MAX_VALUES],
    /// Number of the list.
    number: u32,
    /// The next operation.
    at: u32,
    /// The row whose lists are run, and which of them is next.
    hook: u32,
    next: u32,
    /// Events raised so far, and those of them that wait.
    raised: u32,
    n_pending: u32,
    pending: [Raised; MAX_PENDING],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Raised {
    hook: u64,
    parameters: [u64; MAX_PARAMETERS],
}

/// What becomes of a run after an operation.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    GoOn,
    EndRun,
}

/// Nobody writes it; but the verifier cannot know that.
static ZERO: Scratch<u64> = Scratch::new(0);

/// Zero, of which the verifier knows nothing. It looks at a step once for each constant that it
/// finds in a counter of the run, and at all their combinations; of numbers that it does not know
/// there is one.
#[inline(always)]
fn unknown_zero() -> u64 {
    // SAFETY: the place lives as long as the object.
    unsafe { core::ptr::read_volatile(ZERO.get()) }
}

/// Copies word by word; the compiler would call a function that does it byte by byte.
#[inline(always)]
fn copy<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for n in 0..N {
        // SAFETY: a reference is valid and aligned.
        unsafe { core::ptr::write_volatile(&raw mut to[n], from[n]) };
    }
}

impl Frame {
    /// Something that happened to a task, in its own context.
    #[inline(always)]
    pub fn new(context: *mut c_void, task: Task, arguments: [u64; ARGUMENTS]) -> Self {
        Self::at(context, task, arguments, (0, 0))
    }

    /// The same at an instruction, with a stack pointer.
    #[inline(always)]
    fn at(
        context: *mut c_void,
        task: Task,
        arguments: [u64; ARGUMENTS],
        (ip, sp): (u64, u64),
    ) -> Self {
        let pid = task.tgid();
        let zero = unknown_zero();
        // With zeroes that it knows the compiler would call a function that clears byte by byte.
        let [a, b, c, d, e, f] = arguments.map(|it| it | zero);
        Self {
            context,
            task,
            pid,
            tid: task.tid(),
            other: pid,
            may_allocate: 1,
            may_hold: zero as u32,
            pad: zero as u32,
            ip: ip | zero,
            sp: sp | zero,
            at_ns: zero,
            arguments: [a, b, c, d, e, f, zero, zero],
            run: Run {
                list: null(),
                values: [zero; MAX_VALUES],
                number: zero as u32,
                at: zero as u32,
                hook: hook::NONE,
                next: LISTS_PER_HOOK as u32 + zero as u32,
                raised: zero as u32,
                n_pending: zero as u32,
                pending: [Raised { hook: zero, parameters: [zero; MAX_PARAMETERS] }; MAX_PENDING],
            },
        }
    }

    /// Runs one list, and what it raises.
    #[inline(always)]
    pub fn run_list(&mut self, number: u32) {
        if self.begin(number) {
            self.steps();
        }
    }

    /// Runs the lists of a hook, and what they raise.
    #[inline(always)]
    pub fn run_hook(&mut self, hook: u32) {
        (self.run.hook, self.run.next) = (hook, unknown_zero() as u32);
        if self.rest() && self.begin_next() {
            self.steps();
        }
    }

    /// Until nothing is left, or too much was done. A helper repeats, not a loop of ours: the
    /// verifier then looks at a step once, and not at each of a thousand.
    #[inline(always)]
    fn steps(&mut self) {
        let frame = core::ptr::from_mut(self).cast();
        // SAFETY: the frame outlives the loop, and `step` takes it as what it is.
        unsafe { bpf_loop(MAX_STEPS, step as *mut c_void, frame, 0) };
    }

    /// The time of the event: the clock is read once for all that its lists do.
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        if self.at_ns == 0 {
            self.at_ns = clock::now_ns();
        }
        self.at_ns
    }

    #[inline(always)]
    fn value(&self, number: u8) -> u64 {
        self.run.values[usize::from(number) % MAX_VALUES]
    }

    #[inline(always)]
    fn set(&mut self, number: u8, value: u64) {
        self.run.values[usize::from(number) % MAX_VALUES] = value;
    }
}

/// One operation; 1 when nothing is left to do.
#[inline(never)]
extern "C" fn step(_: u32, frame: *mut Frame) -> i64 {
    // SAFETY: `steps` passes its own frame.
    let frame = unsafe { &mut *frame };
    // SAFETY: `rest` or `begin` has set it to an element of an array, which stays.
    let list = unsafe { &*frame.run.list };
    let at = frame.run.at as usize;
    let mut then = Then::EndRun;
    if at < MAX_OPS {
        frame.run.at = at as u32 + 1 + unknown_zero() as u32;
        then = frame.act(&list.ops[at]);
    }
    if then == Then::GoOn && frame.run.at < u32::from(list.n_ops) {
        return 0;
    }
    if frame.begin_next() { 0 } else { 1 }
}

impl Frame {
    #[inline(always)]
    fn act(&mut self, it: &Op) -> Then {
        match it.code {
            op::COUNT => cell::add(it.index, 1),
            op::FILTER if op::passes(self.value(it.from), it.how, it.value) => {}
            op::FILTER => return Then::EndRun,
            op::ARGUMENT => {
                let value = self.arguments[it.index as usize % PLACES];
                self.set(it.to, op::cut(value, it.how));
            }
            op::ADD => cell::add(it.index, self.value(it.from)),
            op::SOURCE => {
                let value = self.source(it.index);
                self.set(it.to, value);
            }
            op::CONSTANT => self.set(it.to, it.value),
            op::HISTOGRAM => cell::note(it.index, self.value(it.from)),
            op::BEGIN => self.begin_call(it),
            op::END => return self.end_call(it),
            op::RECORD => self.tell(it),
            _ => return self.act_rarely(it),
        }
        Then::GoOn
    }

    #[inline(always)]
    fn act_rarely(&mut self, it: &Op) -> Then {
        match it.code {
            op::MEMORY => return self.fetch_memory(it),
            op::PEEK => self.peek(it),
            op::MIN => self.extreme(it, cell::Extreme::Least),
            op::MAX => self.extreme(it, cell::Extreme::Most),
            op::RUNNING => self.set(it.to, u64::from(self.is_running(it))),
            op::LEVEL_CHANGE => self.move_level(it, level::Move::By),
            op::LEVEL => self.move_level(it, level::Move::To),
            op::SPREAD => self.spread(it),
            op::TRACE => self.trace(it),
            op::ENABLE => begin::switch(it.index, 1),
            op::DISABLE => begin::switch(it.index, 0),
            op::RAISE => self.raise(it),
            op::SIGNAL => self.signal(it),
            op::OURS => {
                let process = self.value(it.from);
                let is_ours = member::is_in(process as u32, it.index);
                self.set(it.to, if is_ours { process } else { u64::MAX });
            }
            _ => return Then::EndRun,
        }
        Then::GoOn
    }

    #[inline(always)]
    fn source(&mut self, index: u32) -> u64 {
        match index {
            op::source::PID => u64::from(self.pid),
            op::source::TID => u64::from(self.tid),
            op::source::TIME => self.now_ns(),
            op::source::CPU => u64::from(clock::processor()),
            op::source::IP => self.ip,
            op::source::SP => self.sp,
            op::source::THREAD_POINTER => register::thread_pointer(self.task),
            _ => 0,
        }
    }
}
