//! Where the error number of a thread is.
//!
//! In: the files that a process has mapped. Out: the distance from the thread pointer, which is the
//! same for all its threads, as `__errno_location` of its C library computes it: a constant in a
//! static program and in musl, a word that the dynamic linker writes in a shared glibc. A function
//! that does anything else has none, and so has a process with several C libraries that disagree.

use super::{SymbolError, function::Function, mapped_files::MappedFile};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use monitor_model::ErrnoPlace;

/// The function that returns its address.
const FUNCTION: &str = "__errno_location";

/// The place, if the process has one.
pub(super) fn find_place(files: &[MappedFile]) -> Option<ErrnoPlace> {
    let mut all = files.iter().filter_map(|file| place_in(file).transpose());
    let first = all.next()?.ok().flatten();
    // Of a library that cannot be read it is not known which of them a call uses.
    let agree = all.all(|other| other.is_ok_and(|other| other == first));
    first.filter(|_| agree)
}

/// The place by the C library in a file: none, if there is no such library; none in it, if its
/// function computes it in an unknown way.
#[expect(clippy::option_option, reason = "a file without the function is not an unknown place")]
fn place_in(file: &MappedFile) -> Result<Option<Option<ErrnoPlace>>, SymbolError> {
    let symbols = file.image.symbols(|name| name == FUNCTION)?;
    let Some(symbol) = symbols.first() else { return Ok(None) };
    let Some(function) = Function::around(&file.image, symbol.address)? else {
        return Ok(Some(None));
    };
    let length = function.range.end.saturating_sub(symbol.address).min(LONGEST);
    let code = file.image.code(symbol.address, length)?;
    Ok(Some(computed(&code, symbol.address).map(|place| match place {
        ErrnoPlace::Word(address) => ErrnoPlace::Word(file.bias.wrapping_add(address)),
        offset @ ErrnoPlace::Offset(_) => offset,
    })))
}

/// Most bytes of the function; it has less than 30.
const LONGEST: u64 = 64;

/// A sum in the result register: a number of thread pointers, an offset, and a word of the file.
#[derive(Default)]
struct Sum {
    thread_pointers: u32,
    offset: i64,
    word: Option<u64>,
}

/// What code returns as the sum of the thread pointer and one other number.
fn computed(code: &[u8], address: u64) -> Option<ErrnoPlace> {
    let mut sum: Option<Sum> = None;
    for insn in Decoder::with_ip(64, code, address, DecoderOptions::NONE).iter() {
        match insn.mnemonic() {
            Mnemonic::Endbr64 | Mnemonic::Nop => continue,
            Mnemonic::Ret => {
                return match sum? {
                    Sum { thread_pointers: 1, offset, word: None } if offset != 0 => {
                        Some(ErrnoPlace::Offset(offset))
                    }
                    Sum { thread_pointers: 1, offset: 0, word } => word.map(ErrnoPlace::Word),
                    _ => None,
                };
            }
            _ if insn.op0_kind() != OpKind::Register || insn.op0_register() != Register::RAX => {
                return None;
            }
            Mnemonic::Mov => sum = Some(Sum::default().plus(&insn)?),
            Mnemonic::Add => sum = Some(sum?.plus(&insn)?),
            Mnemonic::Lea if is_above_result(&insn) => {
                let before = sum?;
                let by = insn.memory_displacement64().cast_signed();
                sum = Some(Sum { offset: before.offset.wrapping_add(by), ..before });
            }
            _ => return None,
        }
    }
    None
}

/// Whether an address is the result register with a displacement.
fn is_above_result(insn: &Instruction) -> bool {
    insn.memory_base() == Register::RAX && insn.memory_index() == Register::None
}

impl Sum {
    /// The same with the second operand added.
    fn plus(self, insn: &Instruction) -> Option<Self> {
        match insn.op1_kind() {
            OpKind::Memory if insn.is_ip_rel_memory_operand() => {
                let word = self.word.is_none().then(|| insn.ip_rel_memory_address())?;
                Some(Self { word: Some(word), ..self })
            }
            // `%fs:0` has its own address, which is the thread pointer.
            OpKind::Memory if insn.segment_prefix() == Register::FS => {
                let is_first = insn.memory_base() == Register::None
                    && insn.memory_index() == Register::None
                    && insn.memory_displacement64() == 0;
                is_first.then(|| Self { thread_pointers: self.thread_pointers + 1, ..self })
            }
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                let by = insn.immediate(1).cast_signed();
                Some(Self { offset: self.offset.wrapping_add(by), ..self })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `add %fs:0, %rax`, `mov %fs:0, %rax` and `ret`.
    const ADD: &[u8] = &[0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0];
    const MOVE: &[u8] = &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
    const RET: &[u8] = &[0xc3];

    fn check(code: &[&[u8]], want: Option<ErrnoPlace>) {
        assert_eq!(computed(&code.concat(), 0x1000), want);
    }

    #[test]
    fn each_c_library_has_its_own_way() {
        let landing_pad: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        // Shared glibc: `mov 0x100(%rip), %rax`.
        let word: &[u8] = &[0x48, 0x8b, 0x05, 0, 1, 0, 0];
        check(&[word, ADD, RET], Some(ErrnoPlace::Word(0x1107)));
        check(&[landing_pad, word, ADD, RET], Some(ErrnoPlace::Word(0x110b)));
        // Static glibc: `mov $-0x40, %rax`.
        let constant: &[u8] = &[0x48, 0xc7, 0xc0, 0xc0, 0xff, 0xff, 0xff];
        check(&[constant, ADD, RET], Some(ErrnoPlace::Offset(-0x40)));
        // musl: `add $0x34, %rax`, or `lea 0x34(%rax), %rax`.
        let above: &[u8] = &[0x48, 0x83, 0xc0, 0x34];
        check(&[MOVE, above, RET], Some(ErrnoPlace::Offset(0x34)));
        check(&[MOVE, &[0x48, 0x8d, 0x40, 0x34], RET], Some(ErrnoPlace::Offset(0x34)));
    }

    #[test]
    fn what_is_not_known_has_no_place() {
        let call: &[u8] = &[0xe8, 0, 0, 0, 0];
        check(&[call, RET], None); // `__tls_get_addr`
        check(&[MOVE, RET], None); // the thread pointer itself
        check(&[ADD, RET], None); // an undefined register
        check(&[MOVE, ADD, &[0x48, 0x83, 0xc0, 0x34], RET], None);
        check(&[&[0x48, 0xc7, 0xc0, 0xc0, 0xff, 0xff, 0xff], RET], None);
        check(&[MOVE, &[0x48, 0x83, 0xc0, 0x34]], None); // cut off
        check(&[&[0xf3, 0x0f, 0x1e]], None);
    }
}
