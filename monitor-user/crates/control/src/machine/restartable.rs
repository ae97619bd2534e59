//! Whether an instruction may be executed a second time with its registers set back.
//!
//! In: the bytes of an instruction. Out: the registers that it changes, and what it stores in the
//! frame of its thread; none, if a second execution has another effect, or if other threads may see
//! that it was executed. A kernel probe stops a thread after its instruction, so a breakpoint by a
//! probe sets these registers and that word back.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use serde::{Deserialize, Serialize};

/// What an instruction changes besides program counter, stack pointer and flags.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Registers, by their index in `struct pt_regs`.
    pub registers: Vec<u8>,
    /// A word in the frame of the thread.
    pub stored: Option<FrameStore>,
}

/// What an instruction stores relative to the stack pointer or the frame pointer.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStore {
    /// The register, by its index.
    pub base: u8,
    /// The distance from it.
    pub offset: i64,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u8,
}

/// Indexes in `struct pt_regs` of arch/x86/include/asm/ptrace.h, which are those in
/// `user_regs_struct`, too.
pub const PROBED_PC: u8 = 16;
/// The flags.
pub const PROBED_FLAGS: u8 = 18;
/// The stack pointer.
pub const PROBED_SP: u8 = 19;

/// Instructions that use nothing but general registers, flags and memory.
const PLAIN: [CpuidFeature; 9] = [
    CpuidFeature::INTEL8086,
    CpuidFeature::INTEL186,
    CpuidFeature::INTEL286,
    CpuidFeature::INTEL386,
    CpuidFeature::INTEL486,
    CpuidFeature::X64,
    CpuidFeature::CMOV,
    CpuidFeature::MULTIBYTENOP,
    CpuidFeature::CET_IBT,
];

/// What the instruction at an address changes.
pub fn restartable(code: &[u8], address: u64) -> Option<Changes> {
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    if instruction.is_invalid() || !is_plain(&instruction) {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let stored = frame_store(&instruction);
    let is_seen = |it: &UsedMemory| shows_execution(&instruction, it);
    if stored.is_none() && info.used_memory().iter().any(is_seen) {
        return None;
    }
    let mut changed = Vec::new();
    for used in info.used_registers().iter().filter(|it| is_write(it.access())) {
        match index(used.register().full_register()) {
            Some(PROBED_SP) => {}
            Some(index) if !changed.contains(&index) => changed.push(index),
            Some(_) => {}
            None => return None,
        }
    }
    Some(Changes { registers: changed, stored })
}

/// What the instruction stores, if it does nothing but store in the frame of its thread.
fn frame_store(instruction: &Instruction) -> Option<FrameStore> {
    let base = instruction.memory_base();
    let is_frame = matches!(base, Register::RSP | Register::RBP)
        && instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None;
    let stores =
        instruction.mnemonic() == Mnemonic::Mov && instruction.op0_kind() == OpKind::Memory;
    let bytes = u8::try_from(instruction.memory_size().size()).ok()?;
    let offset = instruction.memory_displacement64().cast_signed();
    (is_frame && stores && matches!(bytes, 1 | 2 | 4 | 8)).then_some(FrameStore {
        base: index(base)?,
        offset,
        bytes,
    })
}

fn is_plain(instruction: &Instruction) -> bool {
    let has_prefix = instruction.has_lock_prefix()
        || instruction.has_rep_prefix()
        || instruction.has_repne_prefix();
    let ends_here = matches!(
        instruction.flow_control(),
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend
    );
    let is_plain = instruction.cpuid_features().iter().all(|it| PLAIN.contains(it));
    !has_prefix && !ends_here && is_plain && !instruction.is_privileged()
}

/// Whether memory shows that the instruction was executed. What a call or a push writes is below
/// the stack pointer that is set back, where a program keeps nothing that it still reads.
fn shows_execution(instruction: &Instruction, used: &UsedMemory) -> bool {
    let is_push = used.base() == Register::RSP && instruction.stack_pointer_increment() < 0;
    is_write(used.access()) && !is_push
}

const fn is_write(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The index of a general register.
const fn index(register: Register) -> Option<u8> {
    Some(match register {
        Register::R15 => 0,
        Register::R14 => 1,
        Register::R13 => 2,
        Register::R12 => 3,
        Register::RBP => 4,
        Register::RBX => 5,
        Register::R11 => 6,
        Register::R10 => 7,
        Register::R9 => 8,
        Register::R8 => 9,
        Register::RAX => 10,
        Register::RCX => 11,
        Register::RDX => 12,
        Register::RSI => 13,
        Register::RDI => 14,
        Register::RSP => PROBED_SP,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Changes, FrameStore, restartable};

    #[test]
    fn registers_that_an_instruction_changes_are_named() {
        let none: &[u8] = &[];
        let cases: [(&[u8], &[u8]); 9] = [
            (&[0xf3, 0x0f, 0x1e, 0xfa], none), // endbr64
            (&[0x55], none),                   // push rbp
            (&[0x5d], &[4]),                   // pop rbp
            (&[0xc9], &[4]),                   // leave
            (&[0x48, 0x83, 0xec, 0x20], none), // sub rsp,32
            (&[0x8b, 0x45, 0xfc], &[10]),      // mov eax,[rbp-4]
            (&[0x48, 0xf7, 0xe1], &[10, 12]),  // mul rcx
            (&[0xe8, 0, 0, 0, 0], none),       // call
            (&[0xc3], none),                   // ret
        ];
        for (code, changed) in cases {
            let found = restartable(code, 0x1000).unwrap_or_else(|| panic!("{code:x?}"));
            let mut registers = found.registers;
            registers.sort_unstable();
            assert_eq!((registers.as_slice(), found.stored), (changed, None), "{code:x?}");
        }
    }

    #[test]
    fn a_store_in_the_frame_is_set_back() {
        let cases: [(&[u8], FrameStore); 4] = [
            // mov [rbp-4],0
            (&[0xc7, 0x45, 0xfc, 0, 0, 0, 0], FrameStore { base: 4, offset: -4, bytes: 4 }),
            // mov [rbp-0x14],edi
            (&[0x89, 0x7d, 0xec], FrameStore { base: 4, offset: -0x14, bytes: 4 }),
            // mov [rsp+8],rdx
            (&[0x48, 0x89, 0x54, 0x24, 8], FrameStore { base: 19, offset: 8, bytes: 8 }),
            // mov [rsp-8],al
            (&[0x88, 0x44, 0x24, 0xf8], FrameStore { base: 19, offset: -8, bytes: 1 }),
        ];
        for (code, stored) in cases {
            let changes = Changes { registers: Vec::new(), stored: Some(stored) };
            assert_eq!(restartable(code, 0x1000), Some(changes), "{code:x?}");
        }
    }

    #[test]
    fn what_a_second_execution_would_do_again_is_refused() {
        let cases: [&[u8]; 11] = [
            &[0x89, 0x07],             // mov [rdi],eax
            &[0x89, 0x44, 0x85, 0xf8], // mov [rbp+rax*4-8],eax
            &[0x87, 0x07],             // xchg [rdi],eax
            &[0xf0, 0xff, 0x07],       // lock inc [rdi]
            &[0xff, 0x07],             // inc [rdi]
            &[0xff, 0x45, 0xfc],       // inc [rbp-4]
            &[0xf3, 0xa4],             // rep movsb
            &[0x0f, 0x05],             // syscall
            &[0xcc],                   // int3
            &[0x0f, 0x28, 0xc1],       // movaps xmm0,xmm1
            &[0xd9, 0xe8],             // fld1
        ];
        for code in cases {
            assert_eq!(restartable(code, 0x1000), None, "{code:x?}");
        }
    }
}
