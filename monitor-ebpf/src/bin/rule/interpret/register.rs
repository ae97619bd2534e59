//! Registers of a probed call: where the arguments, the result and the stack pointer are.
//!
//! On x86 each is one load ([`x86_registers`]); on other architectures the registers are copied.

use super::frame::{ARGUMENTS, Frame};
use aya_ebpf::helpers::bpf_probe_read_user;
use core::ffi::c_void;
use monitor_ebpf::abi::offset::ABSENT;
use monitor_ebpf::abi::rule::CallOffsets;
use monitor_ebpf::kernel::task::Task;
use monitor_ebpf::kernel::{constant, load, probe, x86_registers};

/// Set by the loader.
#[unsafe(no_mangle)]
static CALL_REGISTERS: CallOffsets = CallOffsets::ABSENT;

/// Of `struct user_pt_regs` on arm64, by number: x0 and up, then the stack pointer and the counter.
const ARM_SP: u32 = 31;
const ARM_PC: u32 = 32;

/// Whether the registers are those of x86.
#[inline(always)]
pub fn is_x86() -> bool {
    constant!(CALL_REGISTERS.di) == x86_registers::ARGUMENTS[0]
        && constant!(CALL_REGISTERS.sp) == x86_registers::SP
}

#[inline(always)]
fn other(registers: *const u8, number: u32) -> u64 {
    let all = constant!(CALL_REGISTERS.all);
    if all == ABSENT { 0 } else { probe(registers, all + 8 * number) }
}

/// Base of a thread's local variables. The kernel keeps it for running threads too, if it was set
/// by a system call, as C libraries do.
#[inline(always)]
pub fn thread_pointer(task: Task) -> u64 {
    let at = constant!(CALL_REGISTERS.thread);
    if at == ABSENT { 0 } else { load(task.as_ptr(), at) }
}

/// Whether a thread blocks a signal, which delays its delivery.
#[inline(always)]
pub fn blocks(task: Task, signal: u32) -> bool {
    let at = constant!(CALL_REGISTERS.blocked);
    at != ABSENT && load::<u64>(task.as_ptr(), at) >> (signal - 1) & 1 == 1
}

/// Whether a thread is traced.
#[inline(always)]
pub fn is_traced(task: Task) -> bool {
    let at = constant!(CALL_REGISTERS.ptrace);
    at != ABSENT && load::<u32>(task.as_ptr(), at) != 0
}

/// Words of the registers of a probe that can be read.
const WORDS: u32 = 32;

/// A word of the registers of a probe, by its index in the structure of the kernel.
#[inline(always)]
pub fn word(registers: *mut c_void, index: u32) -> u64 {
    if index >= WORDS { 0 } else { probe(registers.cast_const().cast(), 8 * index) }
}

/// Frame of a call at its entry, or of another instruction.
#[inline(always)]
pub fn entry(registers: *const u8) -> Frame {
    let [a, b, c, d, e, f] = x86_registers::ARGUMENTS;
    if is_x86() {
        let at = |offset| load(registers, offset);
        let mut frame = frame(registers, [0; ARGUMENTS], x86_position(registers));
        // After the others: loaded before them, they are moved to the stack and back.
        let [first, second, third, fourth, fifth, sixth, ..] = &mut frame.arguments;
        (*first, *second, *third) = (at(a), at(b), at(c));
        (*fourth, *fifth, *sixth) = (at(d), at(e), at(f));
        frame
    } else {
        let at = |number| other(registers, number);
        frame(registers, [at(0), at(1), at(2), at(3), at(4), at(5)], arm_position(registers))
    }
}

/// Frame of a call at its return: the result is the first argument.
#[inline(always)]
pub fn exit(registers: *const u8) -> Frame {
    if is_x86() {
        let result = load(registers, x86_registers::RESULT);
        frame(registers, [result, 0, 0, 0, 0, 0], x86_position(registers))
    } else {
        frame(registers, [other(registers, 0), 0, 0, 0, 0, 0], arm_position(registers))
    }
}

/// Frame of a call at its return instruction, or at its jump to another function: the result is
/// the first argument, the position is that after the return.
#[inline(always)]
pub fn before_return(registers: *const u8) -> Frame {
    let sp: u64 = load(registers, x86_registers::SP);
    // SAFETY: the helper checks the address.
    let caller = unsafe { bpf_probe_read_user(sp as *const u64) }.unwrap_or(0);
    frame(registers, [load(registers, x86_registers::RESULT), 0, 0, 0, 0, 0], (caller, sp + 8))
}

/// Instruction and stack pointer.
#[inline(always)]
fn x86_position(registers: *const u8) -> (u64, u64) {
    (load(registers, x86_registers::IP), load(registers, x86_registers::SP))
}

#[inline(always)]
fn arm_position(registers: *const u8) -> (u64, u64) {
    (other(registers, ARM_PC), other(registers, ARM_SP))
}

#[inline(always)]
fn frame(registers: *const u8, arguments: [u64; ARGUMENTS], position: (u64, u64)) -> Frame {
    let context = registers.cast_mut().cast::<c_void>();
    let mut frame = Frame::with_position(context, Task::current(), arguments, position);
    frame.may_stop = 1;
    frame
}
