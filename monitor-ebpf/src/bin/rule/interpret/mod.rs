//! The interpreter of rule programs, used by all BPF programs of `bin/rule`.
//!
//! In: an event as a [`Frame`], and the first rule program or hook to run. Out: cells, histograms
//! and records. A BPF program is preemptible, so another one may run on the same CPU in between:
//! the state of a run is on its own stack, and counts are added atomically.

mod cell;
mod clock;
pub mod delivery;
mod frame;
mod gauge;
mod memory;
pub mod process_sets;
mod record;
mod record_share;
pub mod register;
mod select;
mod stop;
mod timer;
mod trace;
mod value_histogram;

pub use frame::{Frame, unknown_zero};

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;
use frame::{ARGUMENT_SLOTS, Flow};
use monitor_ebpf::abi::rule::opcode::{self, EncodedInsn};
use monitor_ebpf::abi::rule::{MAX_INSNS, MAX_STEPS};

impl Frame {
    /// Runs one program, and those of the events it raises.
    #[inline(always)]
    pub fn run_program(&mut self, number: u32) {
        self.clear_run();
        if self.select(number) {
            self.steps();
        }
    }

    /// Runs the programs of a hook, and those of the events they raise.
    #[inline(always)]
    pub fn run_hook(&mut self, hook: u32) {
        self.clear_run();
        self.run.start_hook(hook);
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
            opcode::ERRNO => self.read_errno(insn),
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
            opcode::OPERATE => {
                let second =
                    if insn.index == opcode::IMMEDIATE { insn.imm } else { self.reg(insn.src) };
                let value = opcode::operate(self.reg(insn.dst), insn.mode, second);
                self.set_reg(insn.dst, value);
            }
            opcode::SKIP => self.skip(insn),
            opcode::IF_MEMBER => {
                let process = self.reg(insn.src);
                let is_member =
                    process_sets::is_id(process) && self.is_in(process as u32, insn.index);
                self.set_reg(insn.dst, if is_member { process } else { u64::MAX });
            }
            _ => return Flow::End,
        }
        Flow::Continue
    }

    /// Skips instructions: past the last one, the program ends. Without a branch: see `peek`.
    #[inline(always)]
    fn skip(&mut self, insn: &EncodedInsn) {
        let skipped = insn.index * u32::from(opcode::skips(self.reg(insn.src), insn.mode));
        self.run.at = (self.run.at + skipped) | unknown_zero() as u32;
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
            index => register::word(self.context, index.wrapping_sub(opcode::builtin::REGISTERS)),
        }
    }
}
