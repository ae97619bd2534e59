//! Where the error number of a thread is.
//!
//! In: a process and the files that it has mapped. Out: the distance from the thread pointer, which
//! is the same for all its threads. It is in what the C library loads in `__errno_location`: a
//! constant in a static program, a word that the dynamic linker wrote otherwise. Other C libraries
//! do it otherwise, and then there is none.

use super::mapped_files::MappedFile;
use super::{SymbolError, function::Function, instruction::Load, memory::ProcessMemory};
use monitor_model::Pid;
use std::path::Path;

/// The function that gives its address.
const FUNCTION: &str = "__errno_location";

/// The distance.
pub(super) fn offset(
    (proc, pid): (&Path, Pid),
    files: &[MappedFile],
) -> Result<Option<i64>, SymbolError> {
    for file in files {
        if let Some(load) = load(file)? {
            return match load {
                Load::Constant(offset) => Ok(Some(offset)),
                Load::At(address) => {
                    let word =
                        ProcessMemory::open(proc, pid)?.word(file.bias.wrapping_add(address))?;
                    Ok(Some(word.cast_signed()))
                }
            };
        }
    }
    Ok(None)
}

/// What the first instruction that loads anything loads.
fn load(file: &MappedFile) -> Result<Option<Load>, SymbolError> {
    let symbols = file.image.symbols(|name| name == FUNCTION)?;
    let Some(symbol) = symbols.first() else { return Ok(None) };
    let Some(function) = Function::around(&file.image, symbol.address)? else { return Ok(None) };
    let all = function.instructions(&file.image)?;
    Ok(all.iter().find_map(|it| it.load))
}
