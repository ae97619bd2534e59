//! Where a probe goes, and that it does no harm there.
//!
//! In: an image, and a function or an address in it. Out: a site, or why there is none.
//! Sets nothing: who attaches takes the path and the offset.

use super::elf::{Image, Symbol};
use super::error::Error;
use super::function::Function;
use super::instruction::{Effect, Instruction};
use super::opened::Opened;
use std::collections::HashSet;
use std::sync::Arc;

/// A place for a probe.
#[derive(Clone, Debug)]
pub struct Site {
    /// The file. It is attached by [`Opened::attach_path`] while this is held.
    pub file: Arc<Opened>,
    /// Where in the file.
    pub offset: u64,
    /// The same in the file's own addresses.
    pub address: u64,
    /// The function, by the name that it was asked for, or its address.
    pub function: String,
    /// What a hit costs.
    pub pace: Pace,
    /// Whether the code jumps back there, so that hits are more than calls.
    pub is_revisited: bool,
}

/// What the kernel does for each hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The instruction is emulated: about half a microsecond.
    Emulated,
    /// A five-byte NOP: a call from Linux 6.18 on, half as much; before, stepped over.
    Patched,
    /// This instruction is stepped over: up to twenty microseconds.
    Stepped(String),
}

impl Pace {
    /// What to say about a place that is slow.
    pub fn warning(&self) -> Option<String> {
        let Self::Stepped(name) = self else { return None };
        Some(format!("slow: the kernel steps over `{name}`, up to 20 us for each hit"))
    }
}

/// Where the calls of a function can be seen.
pub fn entry(image: &Image, symbol: &Symbol) -> Result<Site, Error> {
    let Some(function) = Function::around(image, symbol.address)? else {
        return Err(nowhere(image, symbol.address));
    };
    let all = function.instructions(image)?;
    let from = all.iter().position(|it| it.address == symbol.address);
    let Some((first, behind)) = from.and_then(|from| all[from..].split_first()) else {
        return Err(middle(image, symbol.address, &all));
    };
    let jumps: HashSet<u64> = all.iter().filter_map(|it| it.jump).collect();
    // Behind a landing pad the arguments are where they were, and nothing has been pushed yet.
    let is_behind_fine =
        |it: &&Instruction| !jumps.contains(&it.address) && refusal(&function, &all, it).is_none();
    let behind = behind.first().filter(is_behind_fine);
    let chosen = behind.filter(|_| first.effect == Effect::LandingPad).unwrap_or(first);
    site(image, &function, &all, chosen).map(|site| Site { function: symbol.name.clone(), ..site })
}

/// A place inside a function, by its address in the file.
pub fn inside(image: &Image, address: u64) -> Result<Site, Error> {
    let Some(function) = Function::around(image, address)? else {
        return Err(nowhere(image, address));
    };
    let all = function.instructions(image)?;
    match all.iter().find(|it| it.address == address) {
        Some(chosen) => site(image, &function, &all, chosen),
        None => Err(middle(image, address, &all)),
    }
}

/// Why the return of a function must not be probed, which writes another return address.
pub fn refuse_return(image: &Image, site: &Site) -> Result<(), Error> {
    const TWICE: &[&str] = &["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "getcontext"];
    const SWITCH: &[&str] = &["swapcontext", "makecontext", "setcontext", "longjmp", "siglongjmp"];
    let why = if TWICE.contains(&site.function.as_str()) {
        "it keeps its return address to return there again, which would kill the program"
    } else if SWITCH.contains(&site.function.as_str()) {
        "it does not return to its caller, which would kill the program"
    } else if image.has_section(".gopclntab") {
        "a program in Go moves its stacks, which would kill it; probe what it calls from"
    } else {
        return Ok(());
    };
    let place = place(image, site.address);
    Err(Error::Unsafe { place, why: format!("{why}; use start_lib_call alone") })
}

fn site(
    image: &Image,
    function: &Function,
    all: &[Instruction],
    chosen: &Instruction,
) -> Result<Site, Error> {
    let address = chosen.address;
    if let Some(why) = refusal(function, all, chosen) {
        return Err(Error::Unsafe { place: place(image, address), why });
    }
    let offset = image.code_offset(address);
    let offset = offset.ok_or_else(|| image.file.malformed(format!("code at {address:#x}")))?;
    Ok(Site {
        file: Arc::clone(&image.file),
        offset,
        address,
        function: function.name.clone().unwrap_or_else(|| format!("{address:#x}")),
        pace: match chosen.effect {
            Effect::Emulated => Pace::Emulated,
            Effect::Patched => Pace::Patched,
            _ => Pace::Stepped(chosen.name()),
        },
        is_revisited: all.iter().any(|it| it.jump == Some(address)),
    })
}

/// What a probe on this instruction would do, if it must not be.
fn refusal(function: &Function, all: &[Instruction], it: &Instruction) -> Option<String> {
    match it.effect {
        Effect::Refused(why) => Some(format!("{why}; choose another instruction")),
        // From Linux 6.18 on it is replaced by a call, whose return address overwrites what a leaf
        // function keeps below its stack pointer. At its entry there is nothing yet.
        Effect::Patched if !is_entry(function, all, it) => Some(
            "a probe on a 5-byte NOP inside a function can overwrite its variables; \
             choose another instruction"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether nothing of the function has run before this instruction but landing pads.
fn is_entry(function: &Function, all: &[Instruction], it: &Instruction) -> bool {
    let mut before = all.iter().take_while(|other| other.address < it.address);
    let is_jumped_to = all.iter().any(|other| other.jump == Some(it.address));
    function.is_called
        && !is_jumped_to
        && all.iter().any(|other| other.address == it.address)
        && before.all(|other| other.effect == Effect::LandingPad)
}

fn place(image: &Image, address: u64) -> String {
    format!("{}:{address:#x}", image.file.path.display())
}

fn nowhere(image: &Image, address: u64) -> Error {
    let why = "neither a name nor an unwind table tells which function this is in, so it may be \
               the middle of an instruction; give the address of an instruction of a function"
        .to_owned();
    Error::Unsafe { place: place(image, address), why }
}

fn middle(image: &Image, address: u64, all: &[Instruction]) -> Error {
    let holds = |it: &&Instruction| (it.address..it.address + it.length).contains(&address);
    let why = match all.iter().find(holds) {
        Some(it) => {
            format!("it is the middle of the `{}` at {:#x}; use that", it.name(), it.address)
        }
        None => {
            "the code before it cannot be decoded; use the beginning of the function".to_owned()
        }
    };
    Error::Unsafe { place: place(image, address), why }
}
