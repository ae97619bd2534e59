//! The interpreter of rule programs, used by all BPF programs of `bin/rule`.
//!
//! In: an event as a [`Frame`], and the first rule program or hook to run. Out: cells, histograms
//! and records. A BPF program is preemptible, so another one may run on the same CPU in between:
//! the state of a run is on its own stack, and counts are added atomically.

mod cell;
mod clock;
pub mod delivery;
mod gauge;
mod memory;
pub mod process_sets;
mod record;
pub mod register;
mod select;
mod stop;
mod timer;
mod trace;
mod value_histogram;

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;
use core::ptr::null;
use monitor_ebpf::abi::rule::opcode::{self, EncodedInsn};
use monitor_ebpf::abi::rule::{
    EncodedProgram, MAX_INSNS, MAX_PARAMETERS, MAX_PENDING, MAX_REGS, MAX_STEPS, PROGRAMS_PER_HOOK,
    hook,
};
use monitor_ebpf::kernel::scratch::Scratch;
use monitor_ebpf::kernel::task::Task;

/// Arguments of an event.
pub const ARGUMENTS: usize = 6;
/// Slots for them: a power of two, so that a mask bounds an index for the verifier.
const ARGUMENT_SLOTS: usize = 8;

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
    /// Address of the probed instruction, or 0.
    pub ip: u64,
    /// Stack pointer, or 0.
    pub sp: u64,
    /// Time of the event, once it was read; 0 before.
    at_ns: u64,
    /// Arguments that programs can read.
    pub arguments: [u64; ARGUMENT_SLOTS],
    run: Run,
}

/// A run of a program.
#[repr(C)]
struct Run {
    program: *const EncodedProgram,
    regs: [u64; MAX_REGS],
    /// Number of the program.
    number: u32,
    /// Index of the next instruction.
    at: u32,
    /// Row of the hook whose programs run, and index of the next of them.
    hook: u32,
    next: u32,
    /// Number of raised events, and those of them that are pending.
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

/// How a run continues after an instruction.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Continue,
    End,
}

/// Never written, which the verifier cannot know.
static ZERO: Scratch<u64> = Scratch::new(0);

/// Zero, as a value unknown to the verifier. The verifier checks a step for each combination of
/// constants in the counters of a run; unknown values are one state.
#[inline(always)]
fn unknown_zero() -> u64 {
    // SAFETY: the static lives as long as the object.
    unsafe { core::ptr::read_volatile(ZERO.get()) }
}

/// Copies word by word; the compiler would call a function that copies byte by byte.
#[inline(always)]
fn copy<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for n in 0..N {
        // SAFETY: a reference is valid and aligned.
        unsafe { core::ptr::write_volatile(&raw mut to[n], from[n]) };
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
    fn with_position(
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
            may_stop: zero as u32,
            pad: zero as u32,
            ip: ip | zero,
            sp: sp | zero,
            at_ns: zero,
            arguments: [a, b, c, d, e, f, zero, zero],
            run: Run {
                program: null(),
                regs: [zero; MAX_REGS],
                number: zero as u32,
                at: zero as u32,
                hook: hook::NONE,
                next: PROGRAMS_PER_HOOK as u32 + zero as u32,
                raised: zero as u32,
                n_pending: zero as u32,
                pending: [Raised { hook: zero, parameters: [zero; MAX_PARAMETERS] }; MAX_PENDING],
            },
        }
    }

    /// Runs one program, and those of the events it raises.
    #[inline(always)]
    pub fn run_program(&mut self, number: u32) {
        if self.select(number) {
            self.steps();
        }
    }

    /// Runs the programs of a hook, and those of the events they raise.
    #[inline(always)]
    pub fn run_hook(&mut self, hook: u32) {
        (self.run.hook, self.run.next) = (hook, unknown_zero() as u32);
        if self.idle() && self.select_next() {
            self.steps();
        }
    }

    /// Executes steps until all programs have ended or the limit is reached. The loop is a helper,
    /// so that the verifier checks the step once and not a thousand times.
    #[inline(always)]
    fn steps(&mut self) {
        let frame = core::ptr::from_mut(self).cast();
        // SAFETY: the frame outlives the loop, and `step` takes it with this type.
        unsafe { bpf_loop(MAX_STEPS, step as *mut c_void, frame, 0) };
    }

    /// Time of the event: the clock is read once for all its programs.
    #[inline(always)]
    fn now_ns(&mut self) -> u64 {
        if self.at_ns == 0 {
            self.at_ns = clock::now_ns();
        }
        self.at_ns
    }

    #[inline(always)]
    fn reg(&self, number: u8) -> u64 {
        self.run.regs[usize::from(number) % MAX_REGS]
    }

    #[inline(always)]
    fn set_reg(&mut self, number: u8, value: u64) {
        self.run.regs[usize::from(number) % MAX_REGS] = value;
    }
}

/// Executes one instruction; 1 when all programs have ended.
#[inline(never)]
extern "C" fn step(_: u32, frame: *mut Frame) -> i64 {
    // SAFETY: `steps` passes its own frame.
    let frame = unsafe { &mut *frame };
    // SAFETY: `idle` or `select` has set it to an element of an array, which is never freed.
    let program = unsafe { &*frame.run.program };
    let at = frame.run.at as usize;
    let mut flow = Flow::End;
    if at < MAX_INSNS {
        frame.run.at = at as u32 + 1 + unknown_zero() as u32;
        flow = frame.execute(&program.insns[at]);
    }
    if flow == Flow::Continue && frame.run.at < u32::from(program.n_insns) {
        return 0;
    }
    if frame.select_next() { 0 } else { 1 }
}

impl Frame {
    #[inline(always)]
    fn execute(&mut self, insn: &EncodedInsn) -> Flow {
        match insn.code {
            opcode::COUNT => cell::add(insn.index, 1),
            opcode::FILTER if opcode::passes(self.reg(insn.src), insn.mode, insn.imm) => {}
            opcode::FILTER => return Flow::End,
            opcode::ARGUMENT => {
                let value = self.arguments[insn.index as usize % ARGUMENT_SLOTS];
                self.set_reg(insn.dst, opcode::truncate(value, insn.mode));
            }
            opcode::ADD => cell::add(insn.index, self.reg(insn.src)),
            opcode::BUILTIN => {
                let value = self.builtin(insn.index);
                self.set_reg(insn.dst, value);
            }
            opcode::CONSTANT => self.set_reg(insn.dst, insn.imm),
            opcode::LATENCY_HISTOGRAM => cell::count_latency(insn.index, self.reg(insn.src)),
            opcode::TIMER_START => self.start_timer(insn),
            opcode::TIMER_STOP => return self.stop_timer(insn),
            opcode::RECORD => self.record(insn),
            _ => return self.execute_rare(insn),
        }
        Flow::Continue
    }

    #[inline(always)]
    fn execute_rare(&mut self, insn: &EncodedInsn) -> Flow {
        match insn.code {
            opcode::MEMORY => return self.read_memory(insn),
            opcode::PEEK => self.peek(insn),
            opcode::MIN => self.extreme(insn, cell::Extreme::Min),
            opcode::MAX => self.extreme(insn, cell::Extreme::Max),
            opcode::TIMER_RUNNING => self.set_reg(insn.dst, u64::from(self.is_running(insn))),
            opcode::GAUGE_ADD => self.change_gauge(insn, gauge::GaugeChange::By),
            opcode::GAUGE_SET => self.change_gauge(insn, gauge::GaugeChange::To),
            opcode::VALUE_HISTOGRAM => self.count_value(insn),
            opcode::TRACE => self.trace(insn),
            opcode::ENABLE => select::switch(insn.index, 1),
            opcode::DISABLE => select::switch(insn.index, 0),
            opcode::RAISE => self.raise(insn),
            opcode::SIGNAL => self.signal(insn),
            opcode::IF_MEMBER => {
                let process = self.reg(insn.src);
                let is_member = process_sets::is_in(process as u32, insn.index);
                self.set_reg(insn.dst, if is_member { process } else { u64::MAX });
            }
            _ => return Flow::End,
        }
        Flow::Continue
    }

    #[inline(always)]
    fn builtin(&mut self, index: u32) -> u64 {
        match index {
            opcode::builtin::PID => u64::from(self.pid),
            opcode::builtin::TID => u64::from(self.tid),
            opcode::builtin::TIME => self.now_ns(),
            opcode::builtin::CPU => u64::from(clock::processor()),
            opcode::builtin::IP => self.ip,
            opcode::builtin::SP => self.sp,
            opcode::builtin::THREAD_POINTER => register::thread_pointer(self.task),
            _ => 0,
        }
    }
}
