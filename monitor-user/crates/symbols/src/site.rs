//! Checks that a probe at an address is harmless.
//!
//! In: an image, and a function or an address in it. Out: a site, or why a probe there would damage
//! the program. Attaches nothing: backends take the path and the offset.

use super::elf::{ElfImage, Symbol};
use super::instruction::{Effect, Flow, Instruction};
use super::{SymbolError, function::Function, object_file::ObjectFile};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, sync::Arc};

/// Instructions up to the comparison in a check of the stack.
const LONGEST_STACK_CHECK: usize = 5;

/// A place where a probe is harmless.
#[derive(Clone, Debug)]
pub struct ProbeSite {
    /// The file; a probe is attached through [`ObjectFile::attach_path`] while it is open.
    pub file: Arc<ObjectFile>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Its address in the file.
    pub address: u64,
    /// The function, by the requested name or its address.
    pub function: String,
    /// Cost of a hit.
    pub cost: ProbeCost,
    /// Whether code jumps back there, so that there are more hits than calls.
    pub is_revisited: bool,
}

/// How expensive a hit is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum ProbeCost {
    /// The instruction is emulated, which is the cheapest.
    Emulated,
    /// A five-byte NOP: replaced by a call from Linux 6.18 on, single-stepped before.
    Patched,
    /// This instruction is single-stepped, the most expensive.
    Stepped(String),
}

impl ProbeCost {
    /// The warning for a slow site.
    pub fn warning(&self) -> Option<String> {
        let Self::Stepped(name) = self else { return None };
        Some(format!("slow: the kernel single-steps `{name}` at each hit"))
    }
}

/// The site at which all calls of a function are seen.
pub fn entry(image: &ElfImage, symbol: &Symbol) -> Result<ProbeSite, SymbolError> {
    let Some(function) = Function::around(image, symbol.address)? else {
        return Err(no_function(image, symbol.address));
    };
    let all = function.instructions(image)?;
    let Some(from) = all.iter().position(|it| it.address == symbol.address) else {
        return Err(middle(image, symbol.address, &all));
    };
    let first = &all[from];
    let jumps: HashSet<u64> = all.iter().filter_map(|it| it.jump).collect();
    // After a landing pad the arguments are unchanged and nothing is on the stack yet.
    let is_behind_fine =
        |it: &&Instruction| !jumps.contains(&it.address) && refusal(&function, &all, it).is_none();
    let fine = |behind: usize| all[from..].get(behind).filter(is_behind_fine);
    let chosen = match first.effect {
        Effect::LandingPad => fine(1),
        _ if is_go(image) && jumps.contains(&first.address) => {
            stack_check(&all[from..]).and_then(fine)
        }
        _ => None,
    };
    let chosen = chosen.unwrap_or(first);
    site(image, &function, &all, chosen)
        .map(|site| ProbeSite { function: symbol.name.clone(), ..site })
}

/// How many instructions at the start of a Go function check whether its stack is large enough.
///
/// If not, it makes a larger one and begins again, so that a call would be seen twice before the
/// check. Behind it the arguments are unchanged and nothing is on the stack yet.
fn stack_check(all: &[Instruction]) -> Option<usize> {
    let compares = all.iter().take(LONGEST_STACK_CHECK).position(|it| it.name() == "cmp")?;
    (all.get(compares + 1)?.flow == Flow::Branch).then_some(compares + 2)
}

/// Whether the Go compiler made it.
fn is_go(image: &ElfImage) -> bool {
    [".gopclntab", ".data.rel.ro.gopclntab"].iter().any(|name| image.has_section(name))
}

/// A site inside a function, by its address in the file.
pub fn inside(image: &ElfImage, address: u64) -> Result<ProbeSite, SymbolError> {
    let Some(function) = Function::around(image, address)? else {
        return Err(no_function(image, address));
    };
    let all = function.instructions(image)?;
    match all.iter().find(|it| it.address == address) {
        Some(chosen) => site(image, &function, &all, chosen),
        None => Err(middle(image, address, &all)),
    }
}

/// Refuses trampolines where replacing the return address would break the program.
pub fn refuse_return(image: &ElfImage, site: &ProbeSite) -> Result<(), SymbolError> {
    const TWICE: &[&str] = &["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "getcontext"];
    const SWITCH: &[&str] = &["swapcontext", "makecontext", "setcontext", "longjmp", "siglongjmp"];
    let why = if TWICE.contains(&site.function.as_str()) {
        "it saves its return address and returns there again, which would crash the program"
    } else if SWITCH.contains(&site.function.as_str()) {
        "it does not return to its caller, which would crash the program"
    } else if is_go(image) {
        "a Go program moves its stacks, which would crash it"
    } else {
        return Ok(());
    };
    let place = file_and_address(image, site.address);
    Err(SymbolError::Unsafe { place, why: format!("{why}; watch it without a trampoline") })
}

fn site(
    image: &ElfImage,
    function: &Function,
    all: &[Instruction],
    chosen: &Instruction,
) -> Result<ProbeSite, SymbolError> {
    let address = chosen.address;
    if let Some(why) = refusal(function, all, chosen) {
        return Err(SymbolError::Unsafe { place: file_and_address(image, address), why });
    }
    let offset = image.code_offset(address);
    let offset = offset.ok_or_else(|| image.file.malformed(format!("code at {address:#x}")))?;
    Ok(ProbeSite {
        file: Arc::clone(&image.file),
        offset,
        address,
        function: function.name.clone().unwrap_or_else(|| format!("{address:#x}")),
        cost: match chosen.effect {
            Effect::Emulated => ProbeCost::Emulated,
            Effect::Patched => ProbeCost::Patched,
            _ => ProbeCost::Stepped(chosen.name()),
        },
        is_revisited: all.iter().any(|it| it.jump == Some(address)),
    })
}

/// Why an instruction must not be probed.
fn refusal(function: &Function, all: &[Instruction], it: &Instruction) -> Option<String> {
    match it.effect {
        Effect::Refused(why) => Some(format!("{why}; choose another instruction")),
        // From Linux 6.18 on it is replaced by a call, whose return address overwrites what a leaf
        // function keeps below its stack pointer. At the entry nothing is there yet.
        Effect::Patched if !is_entry(function, all, it) => Some(
            "a probe on a 5-byte NOP inside a function can overwrite its variables; \
             choose another instruction"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether only landing pads of the function run before this instruction.
fn is_entry(function: &Function, all: &[Instruction], it: &Instruction) -> bool {
    let mut before = all.iter().take_while(|other| other.address < it.address);
    let is_jumped_to = all.iter().any(|other| other.jump == Some(it.address));
    function.is_called
        && !is_jumped_to
        && all.iter().any(|other| other.address == it.address)
        && before.all(|other| other.effect == Effect::LandingPad)
}

fn file_and_address(image: &ElfImage, address: u64) -> String {
    format!("{}:{address:#x}", image.file.path.display())
}

fn no_function(image: &ElfImage, address: u64) -> SymbolError {
    let why = "neither a symbol nor an unwind table covers this address, so it may be inside an \
               instruction; give the address of an instruction of a known function"
        .to_owned();
    SymbolError::Unsafe { place: file_and_address(image, address), why }
}

fn middle(image: &ElfImage, address: u64, all: &[Instruction]) -> SymbolError {
    let holds = |it: &&Instruction| (it.address..it.address + it.length).contains(&address);
    let why = match all.iter().find(holds) {
        Some(it) => {
            format!("it is inside the `{}` at {:#x}; use that address", it.name(), it.address)
        }
        None => "the code before it cannot be decoded; use the start of the function".to_owned(),
    };
    SymbolError::Unsafe { place: file_and_address(image, address), why }
}
