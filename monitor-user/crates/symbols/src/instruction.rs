//! Machine instructions, as far as probes depend on them.
//!
//! In: 64-bit x86 code and its address. Out: instructions, and how the kernel handles a uprobe on
//! each. Uses iced-x86, whose types stay in this file.
//! The kernel's side is `arch/x86/kernel/uprobes.c`: an emulated instruction costs half a
//! microsecond; any other is single-stepped out of line, which costs up to twenty microseconds.

use iced_x86::{Decoder, DecoderOptions, Instruction as Decoded, Mnemonic, OpKind};

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// How the kernel handles a uprobe there.
    pub effect: Effect,
    /// Target of a direct jump; calls are not jumps.
    pub jump: Option<u64>,
    /// What is executed after it.
    pub flow: Flow,
    mnemonic: Mnemonic,
}

/// What is executed after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction, also after a call.
    Next,
    /// Nothing of this function: it traps, or it is a call, which need not return.
    NextOrNothing,
    /// The caller: `ret`.
    Return,
    /// The target of the jump.
    Jump,
    /// The target of the jump, or the next instruction.
    Branch,
    /// An address from a register or from memory.
    IndirectJump,
}

/// How the kernel handles a uprobe on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A landing pad (`endbr64`): a no-op, which would be single-stepped.
    LandingPad,
    /// Emulated.
    Emulated,
    /// Replaced by a call from Linux 6.18 on, which writes below the stack pointer; single-stepped
    /// before.
    Patched,
    /// Single-stepped out of line.
    Stepped,
    /// The kernel refuses a uprobe there, for this reason.
    Refused(&'static str),
}

impl Instruction {
    /// Its mnemonic, such as `mov`.
    pub fn name(&self) -> String {
        format!("{:?}", self.mnemonic).to_lowercase()
    }
}

/// Decodes code until its end or the first invalid instruction.
pub fn walk(code: &[u8], address: u64) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    std::iter::from_fn(move || {
        let start = decoder.position();
        let decoded = decoder.can_decode().then(|| decoder.decode())?;
        (!decoded.is_invalid()).then(|| instruction(&decoded, &code[start..decoder.position()]))
    })
}

fn instruction(decoded: &Decoded, bytes: &[u8]) -> Instruction {
    let is_branch = matches!(decoded.op0_kind(), OpKind::NearBranch64);
    let is_call = decoded.mnemonic() == Mnemonic::Call;
    Instruction {
        address: decoded.ip(),
        length: bytes.len() as u64,
        effect: effect(decoded.mnemonic(), bytes),
        jump: (is_branch && !is_call).then(|| decoded.near_branch_target()),
        flow: match decoded.mnemonic() {
            Mnemonic::Ret | Mnemonic::Retf => Flow::Return,
            Mnemonic::Jmp if is_branch => Flow::Jump,
            Mnemonic::Jmp => Flow::IndirectJump,
            Mnemonic::Call | Mnemonic::Ud2 | Mnemonic::Hlt | Mnemonic::Int3 => Flow::NextOrNothing,
            _ if is_branch => Flow::Branch,
            _ => Flow::Next,
        },
        mnemonic: decoded.mnemonic(),
    }
}

fn effect(mnemonic: Mnemonic, bytes: &[u8]) -> Effect {
    if let Some(why) = refusal(mnemonic, bytes) {
        return Effect::Refused(why);
    }
    let is_five_long = bytes.len() == 5;
    match (mnemonic, unprefixed(bytes)) {
        (Mnemonic::Endbr64, _) => Effect::LandingPad,
        (Mnemonic::Nop, _) if is_five_long => Effect::Patched,
        // `push` of a register, without or with the REX prefix of the upper eight.
        (_, [0x50..=0x57]) => Effect::Emulated,
        (_, [0x41, 0x50..=0x57]) if bytes.len() == 2 => Effect::Emulated,
        (Mnemonic::Nop, [0x90]) => Effect::Emulated,
        // A relative jump or call, but not with a 16-bit operand.
        (_, [0xeb | 0xe9 | 0xe8 | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..])
            if !bytes.starts_with(&[0x66]) =>
        {
            Effect::Emulated
        }
        _ => Effect::Stepped,
    }
}

/// The bytes after the legacy prefixes; REX prefixes stay.
fn unprefixed(bytes: &[u8]) -> &[u8] {
    let is_prefix = |byte: &u8| matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x64 | 0x65);
    &bytes[bytes.iter().take_while(|byte| is_prefix(byte)).count()..]
}

/// Why the kernel would refuse a uprobe.
fn refusal(mnemonic: Mnemonic, bytes: &[u8]) -> Option<&'static str> {
    use Mnemonic::{Cli, Hlt, In, Insb, Insd, Int, Int1, Int3, Iretq, Out, Outsb, Outsd, Sti};
    let is_prefix = |byte: &&u8| {
        matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0xf0 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65)
    };
    let is_segment_or_lock = |byte: &u8| matches!(byte, 0xf0 | 0x2e | 0x36 | 0x3e | 0x26);
    let mut prefixes = bytes.iter().take_while(is_prefix);
    // Five-byte NOPs are classified as `Patched`, because some kernel versions accept them.
    if prefixes.any(is_segment_or_lock) && !(mnemonic == Mnemonic::Nop && bytes.len() == 5) {
        return Some("the kernel cannot probe an instruction with a lock or segment prefix");
    }
    match mnemonic {
        Int3 | Int1 | Int => Some("it is a breakpoint or interrupt instruction"),
        Hlt | In | Out | Insb | Insd | Outsb | Outsd | Cli | Sti | Iretq => {
            Some("the kernel cannot probe a privileged instruction")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], name: &str, want: Effect) {
        let mut all = walk(bytes, 0x1000);
        let it = all.next().unwrap();
        assert_eq!((it.name().as_str(), it.effect), (name, want), "{bytes:02x?}");
        assert_eq!(it.length, bytes.len() as u64);
        assert!(all.next().is_none());
    }

    #[test]
    fn emulated_instructions_are_recognised() {
        check(&[0x55], "push", Effect::Emulated);
        check(&[0x41, 0x57], "push", Effect::Emulated);
        check(&[0x90], "nop", Effect::Emulated);
        check(&[0xe8, 1, 0, 0, 0], "call", Effect::Emulated);
        check(&[0xe9, 1, 0, 0, 0], "jmp", Effect::Emulated);
        check(&[0xeb, 1], "jmp", Effect::Emulated);
        check(&[0x74, 1], "je", Effect::Emulated);
        check(&[0x0f, 0x84, 1, 0, 0, 0], "je", Effect::Emulated);
    }

    #[test]
    fn any_other_instruction_is_single_stepped() {
        check(&[0x48, 0x89, 0xe5], "mov", Effect::Stepped);
        check(&[0x48, 0x83, 0xec, 8], "sub", Effect::Stepped);
        check(&[0xff, 0xe0], "jmp", Effect::Stepped);
        check(&[0xff, 0x35, 0, 0, 0, 0], "push", Effect::Stepped);
        check(&[0xc3], "ret", Effect::Stepped);
        check(&[0x66, 0x0f, 0x1f, 0x44, 0, 0], "nop", Effect::Stepped);
    }

    #[test]
    fn landing_pads_and_five_byte_nops_are_distinguished() {
        check(&[0xf3, 0x0f, 0x1e, 0xfa], "endbr64", Effect::LandingPad);
        check(&[0x0f, 0x1f, 0x44, 0, 0], "nop", Effect::Patched);
        check(&[0x66, 0x0f, 0x1f, 0x40, 0], "nop", Effect::Patched);
        check(&[0x2e, 0x0f, 0x1f, 0x40, 0], "nop", Effect::Patched);
    }

    #[test]
    fn instructions_that_the_kernel_refuses_are_refused() {
        for (bytes, name) in [
            (&[0xf0, 0x48, 0xff, 0x00][..], "inc"),
            (&[0x3e, 0xff, 0xe0], "jmp"),
            (&[0xcc], "int3"),
            (&[0xf4], "hlt"),
        ] {
            let it = walk(bytes, 0).next().unwrap();
            assert_eq!(it.name(), name);
            assert!(matches!(it.effect, Effect::Refused(_)), "{it:?}");
        }
    }

    #[test]
    fn decoding_ends_at_the_first_invalid_instruction() {
        // `06` is invalid in 64-bit code, and so is a truncated instruction.
        assert_eq!(walk(&[0x90, 0x06, 0x90], 0).count(), 1);
        assert_eq!(walk(&[0x90, 0xe8, 1], 0).count(), 1);
    }

    #[test]
    fn returns_jumps_and_branches_are_distinguished() {
        let flow = |bytes: &[u8]| walk(bytes, 0x1000).next().unwrap().flow;
        assert_eq!(flow(&[0xc3]), Flow::Return);
        assert_eq!(flow(&[0xf3, 0xc3]), Flow::Return);
        assert_eq!(flow(&[0xc2, 8, 0]), Flow::Return);
        assert_eq!(flow(&[0xe9, 1, 0, 0, 0]), Flow::Jump);
        assert_eq!(flow(&[0x74, 1]), Flow::Branch);
        assert_eq!(flow(&[0xe3, 1]), Flow::Branch, "jrcxz");
        assert_eq!(flow(&[0x3e, 0xff, 0xe0]), Flow::IndirectJump);
        assert_eq!(flow(&[0xe8, 0, 0, 0, 0]), Flow::NextOrNothing);
        assert_eq!(flow(&[0x0f, 0x0b]), Flow::NextOrNothing);
        assert_eq!(flow(&[0x0f, 0x05]), Flow::Next, "syscall");
    }

    #[test]
    fn jumps_have_a_target_and_calls_do_not() {
        assert_eq!(walk(&[0xeb, 0xfe], 0x1000).next().unwrap().jump, Some(0x1000));
        assert_eq!(walk(&[0xe8, 0, 0, 0, 0], 0x1000).next().unwrap().jump, None);
        assert_eq!(walk(&[0xff, 0xe0], 0x1000).next().unwrap().jump, None);
    }
}
