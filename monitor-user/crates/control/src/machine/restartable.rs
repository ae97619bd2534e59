//! Whether an instruction may be executed a second time with its registers set back.
//!
//! In: the bytes of an instruction. Out: the registers that it changes; none, if a second execution
//! has another effect, or if memory shows that it was executed. A kernel probe stops a thread after
//! its instruction, so a breakpoint by a probe sets these registers back.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    OpAccess, Register, UsedMemory,
};

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

/// The registers that the instruction at an address changes, besides program counter, stack pointer
/// and flags, by their index in `struct pt_regs`.
pub fn restartable(code: &[u8], address: u64) -> Option<Vec<u8>> {
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    if instruction.is_invalid() || !is_plain(&instruction) {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    if info.used_memory().iter().any(|it| shows_execution(&instruction, it)) {
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
    Some(changed)
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
    use super::restartable;

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
            let mut found = restartable(code, 0x1000).unwrap_or_else(|| panic!("{code:x?}"));
            found.sort_unstable();
            assert_eq!(found, changed, "{code:x?}");
        }
    }

    #[test]
    fn what_a_second_execution_would_do_again_is_refused() {
        let cases: [&[u8]; 9] = [
            &[0x87, 0x07],                   // xchg [rdi],eax
            &[0xf0, 0xff, 0x07],             // lock inc [rdi]
            &[0xff, 0x07],                   // inc [rdi]
            &[0xc7, 0x45, 0xfc, 0, 0, 0, 0], // mov [rbp-4],0
            &[0xf3, 0xa4],                   // rep movsb
            &[0x0f, 0x05],                   // syscall
            &[0xcc],                         // int3
            &[0x0f, 0x28, 0xc1],             // movaps xmm0,xmm1
            &[0xd9, 0xe8],                   // fld1
        ];
        for code in cases {
            assert_eq!(restartable(code, 0x1000), None, "{code:x?}");
        }
    }
}
