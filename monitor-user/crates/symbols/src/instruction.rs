//! Machine instructions, as far as a probe must know them.
//!
//! In: code of 64-bit x86 and where it begins. Out: instruction after instruction, and what the
//! kernel does with a breakpoint there. Written with iced-x86, which stays in this file.
//! The kernel's side is `arch/x86/kernel/uprobes.c`: what it emulates costs half a microsecond;
//! of anything else it makes a copy and steps over that, which costs up to twenty microseconds.

use iced_x86::{Decoder, DecoderOptions, Instruction as Decoded, Mnemonic, OpKind};

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// What a breakpoint there leads to.
    pub effect: Effect,
    /// Where it may jump; a call comes back and is none.
    pub jump: Option<u64>,
    /// What it loads, if that is a constant or stands at a fixed distance.
    pub load: Option<Load>,
    mnemonic: Mnemonic,
}

/// What the kernel does when the instruction has a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is a landing pad, which does nothing and would be stepped over.
    LandingPad,
    /// It is emulated.
    Emulated,
    /// From Linux 6.18 on it becomes a call, which writes below the stack pointer. Before, it is
    /// stepped over.
    Patched,
    /// It is stepped over.
    Stepped,
    /// The kernel sets no breakpoint there.
    Refused(&'static str),
}

/// A value that an instruction loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// This one.
    Constant(i64),
    /// What stands at this address of the file.
    At(u64),
}

impl Instruction {
    /// Its name, such as `mov`.
    pub fn name(&self) -> String {
        format!("{:?}", self.mnemonic).to_lowercase()
    }
}

/// The instructions of a piece of code, until its end or until one that does not exist.
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
        load: load(decoded),
        mnemonic: decoded.mnemonic(),
    }
}

fn load(decoded: &Decoded) -> Option<Load> {
    if decoded.mnemonic() != Mnemonic::Mov {
        return None;
    }
    match decoded.op1_kind() {
        OpKind::Memory if decoded.is_ip_rel_memory_operand() => {
            Some(Load::At(decoded.ip_rel_memory_address()))
        }
        OpKind::Immediate32to64 | OpKind::Immediate64 => {
            Some(Load::Constant(decoded.immediate(1).cast_signed()))
        }
        _ => None,
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
        // One byte, or with the prefix that makes it one of the upper eight registers.
        (_, [0x50..=0x57]) => Effect::Emulated,
        (_, [0x41, 0x50..=0x57]) if bytes.len() == 2 => Effect::Emulated,
        (Mnemonic::Nop, [0x90]) => Effect::Emulated,
        // A jump or a call to a relative address; one of 16 bits is another thing.
        (_, [0xeb | 0xe9 | 0xe8 | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..])
            if !bytes.starts_with(&[0x66]) =>
        {
            Effect::Emulated
        }
        _ => Effect::Stepped,
    }
}

/// What follows the prefixes, but for those that belong to 64-bit code.
fn unprefixed(bytes: &[u8]) -> &[u8] {
    let is_prefix = |byte: &u8| matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x64 | 0x65);
    &bytes[bytes.iter().take_while(|byte| is_prefix(byte)).count()..]
}

/// Why the kernel would answer with an error.
fn refusal(mnemonic: Mnemonic, bytes: &[u8]) -> Option<&'static str> {
    use Mnemonic::{Cli, Hlt, In, Insb, Insd, Int, Int1, Int3, Iretq, Out, Outsb, Outsd, Sti};
    let is_prefix = |byte: &&u8| {
        matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0xf0 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65)
    };
    let is_segment_or_lock = |byte: &u8| matches!(byte, 0xf0 | 0x2e | 0x36 | 0x3e | 0x26);
    let mut prefixes = bytes.iter().take_while(is_prefix);
    // A five-byte one is not left to the kernel: some versions do take it.
    if prefixes.any(is_segment_or_lock) && !(mnemonic == Mnemonic::Nop && bytes.len() == 5) {
        return Some("the kernel takes no instruction with a lock or segment prefix");
    }
    match mnemonic {
        Int3 | Int1 | Int => Some("it is a breakpoint or an interrupt itself"),
        Hlt | In | Out | Insb | Insd | Outsb | Outsd | Cli | Sti | Iretq => {
            Some("the kernel takes no privileged instruction")
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
    fn what_the_kernel_emulates_is_known() {
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
    fn anything_else_is_stepped_over() {
        check(&[0x48, 0x89, 0xe5], "mov", Effect::Stepped);
        check(&[0x48, 0x83, 0xec, 8], "sub", Effect::Stepped);
        check(&[0xff, 0xe0], "jmp", Effect::Stepped);
        check(&[0xff, 0x35, 0, 0, 0, 0], "push", Effect::Stepped);
        check(&[0xc3], "ret", Effect::Stepped);
        check(&[0x66, 0x0f, 0x1f, 0x44, 0, 0], "nop", Effect::Stepped);
    }

    #[test]
    fn landing_pads_and_five_byte_nops_are_told_apart() {
        check(&[0xf3, 0x0f, 0x1e, 0xfa], "endbr64", Effect::LandingPad);
        check(&[0x0f, 0x1f, 0x44, 0, 0], "nop", Effect::Patched);
        check(&[0x66, 0x0f, 0x1f, 0x40, 0], "nop", Effect::Patched);
        check(&[0x2e, 0x0f, 0x1f, 0x40, 0], "nop", Effect::Patched);
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused() {
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
    fn the_walk_ends_where_there_is_no_instruction() {
        // `06` does not exist in 64-bit code; a cut instruction is none either.
        assert_eq!(walk(&[0x90, 0x06, 0x90], 0).count(), 1);
        assert_eq!(walk(&[0x90, 0xe8, 1], 0).count(), 1);
    }

    #[test]
    fn jumps_say_where_to_and_calls_do_not() {
        assert_eq!(walk(&[0xeb, 0xfe], 0x1000).next().unwrap().jump, Some(0x1000));
        assert_eq!(walk(&[0xe8, 0, 0, 0, 0], 0x1000).next().unwrap().jump, None);
        assert_eq!(walk(&[0xff, 0xe0], 0x1000).next().unwrap().jump, None);
    }
}
