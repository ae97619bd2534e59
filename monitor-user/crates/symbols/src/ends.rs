//! Where a call of a function ends: its return instructions, and its jumps to other functions.
//!
//! In: an image and a site in a function. Out: instructions that can be probed, or why not all ends
//! can be found. Every part of the function is decoded to its end. A jump out of a part leads to
//! another part (a cold one) or, where the stack pointer is at the return address again, to another
//! function, which returns in its place.

use super::elf::ElfImage;
use super::function::Function;
use super::instruction::{Effect, Flow, Instruction};
use super::{ProbeSite, SymbolError};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most parts of a function, and most ends.
const MOST: usize = 64;

/// The ends of a function, as offsets in its file, in bytes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionEnds {
    /// Return instructions.
    pub returns: Vec<u64>,
    /// Jumps to other functions, which give their result to the caller.
    pub tail_jumps: Vec<u64>,
}

/// The ends of the function of a site.
///
/// # Errors
///
/// Fails if the function cannot be decoded to its ends, or one of them cannot be probed.
pub fn ends(image: &ElfImage, site: &ProbeSite) -> Result<FunctionEnds, SymbolError> {
    let refuse = |why: String| SymbolError::Unsafe {
        place: format!("{}:{:#x}", image.file.path.display(), site.address),
        why: format!("its ends cannot all be seen: {why}; watch its calls alone"),
    };
    let function = Function::around(image, site.address)?;
    let function = function.ok_or_else(|| refuse("its end is not known".to_owned()))?;
    let mut search =
        EndSearch { image, parts: vec![function.range], ends: FunctionEnds::default() };
    let mut next = 0;
    while next < search.parts.len() {
        search.add_part(next).map_err(refuse)?;
        next += 1;
    }
    match search.ends.returns.len() + search.ends.tail_jumps.len() {
        0 => Err(refuse("it does not return".to_owned())),
        many if many > MOST => Err(refuse(format!("it has {many}, and {MOST} are possible"))),
        _ => Ok(search.ends),
    }
}

struct EndSearch<'i> {
    image: &'i ElfImage,
    parts: Vec<Range<u64>>,
    ends: FunctionEnds,
}

impl EndSearch<'_> {
    /// Finds the ends in a part, and the parts that it jumps to.
    fn add_part(&mut self, part: usize) -> Result<(), String> {
        let range = self.parts[part].clone();
        let function = Function { name: None, range: range.clone(), is_called: false };
        let all = function.instructions(self.image).map_err(|error| error.to_string())?;
        let decoded_to = all.last().map_or(range.start, |it| it.address + it.length);
        if decoded_to < range.end {
            return Err(format!("the code at {decoded_to:#x} cannot be decoded"));
        }
        let last = all.iter().rev().find(|it| it.name() != "nop");
        if let Some(it) = last.filter(|it| matches!(it.flow, Flow::Next | Flow::Branch)) {
            return Err(format!("after {:#x} it continues in another function", it.address));
        }
        let levels = self.image.entry_level_ranges(range.start);
        for it in &all {
            let is_at_entry_level = || {
                let levels = levels.as_ref().ok_or("it has no unwind table")?;
                Ok::<bool, String>(levels.iter().any(|range| range.contains(&it.address)))
            };
            match (it.flow, it.jump) {
                (Flow::Return, _) => {
                    let offset = self.offset(it)?;
                    self.ends.returns.push(offset);
                }
                (_, Some(target)) if self.parts.iter().any(|part| part.contains(&target)) => {}
                (Flow::Jump, Some(_)) if is_at_entry_level()? => {
                    let offset = self.offset(it)?;
                    self.ends.tail_jumps.push(offset);
                }
                (Flow::Branch, Some(_)) if is_at_entry_level()? => {
                    let at = it.address;
                    return Err(format!("the branch at {at:#x} may lead to another function"));
                }
                (_, Some(target)) => self.enqueue(target)?,
                (Flow::IndirectJump, None) if is_at_entry_level()? => {
                    let at = it.address;
                    return Err(format!("the jump at {at:#x} may lead to another function"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the part around the target of a jump.
    fn enqueue(&mut self, target: u64) -> Result<(), String> {
        let part = self.image.unwind_range(target);
        let part = part.ok_or_else(|| format!("the code at {target:#x} has no unwind table"))?;
        if self.parts.len() == MOST {
            return Err(format!("it has more than {MOST} parts"));
        }
        self.parts.push(part);
        Ok(())
    }

    /// The offset of an end in the file, if the kernel can probe it.
    fn offset(&self, it: &Instruction) -> Result<u64, String> {
        if let Effect::Refused(why) = it.effect {
            return Err(format!("at {:#x}, {why}", it.address));
        }
        let offset = self.image.code_offset(it.address);
        offset.ok_or_else(|| format!("{:#x} is not in the file", it.address))
    }
}
