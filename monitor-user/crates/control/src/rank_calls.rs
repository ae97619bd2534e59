//! What a profile of the calls of MPI needs of the ranks, with the rights of this process: the
//! functions that they call, the calls in which their threads are, names of places, and sizes of
//! types.
//!
//! In: questions about processes. Out: data alone. Sets no probe. The descriptions of functions say
//! which arguments are a number and a type of elements.

use crate::call_questions::{
    CallAnswer, CallAnswers, CallQuestion, MpiFunction, MpiFunctions, StackCall, ThreadCalls,
};
use crate::call_stacks::{CallStackReader, ThreadStack, Threads, place_name};
use crate::{ControlError, memory, process_ref::ProcessRef};
use monitor_jobs::mpi_datatype::DatatypeHandles;
use monitor_jobs::mpi_name::{is_mark, unified};
use monitor_model::Identity;
use monitor_symbols::held_file::FileRef;
use monitor_symbols::library_calls::CallFinder;
use monitor_symbols::mapped_files::{self, MappedFile};
use monitor_symbols::signatures::Signatures;
use monitor_symbols::signatures::call::{Direction, Signature, ValueType};
use std::path::Path;
use std::sync::Arc;

const PROC: &str = "/proc";
/// Integer arguments in registers.
const MAX_ARGUMENTS: usize = 6;
/// How the names of the arguments end that are types of elements.
const TYPE: &str = "type";
/// Bytes of a return address on the stack.
const WORD: u64 = 8;

/// Answers them with the rights of this process.
pub struct RankCallReader {
    finder: CallFinder,
    signatures: Signatures,
    stacks: CallStackReader,
}

impl RankCallReader {
    /// A reader; `lines` looks up the lines of places too.
    pub fn new(lines: bool) -> Self {
        Self {
            finder: CallFinder::new(unified, is_mark),
            signatures: Signatures::shipped(),
            stacks: CallStackReader::new(lines),
        }
    }

    fn functions(&mut self, process: Identity) -> Result<MpiFunctions, ControlError> {
        let failed = |why: monitor_symbols::SymbolError| ControlError::WrongState(why.to_string());
        let (files, _) = mapped_files::files(Path::new(PROC), process.pid).map_err(failed)?;
        // These were the files of this process, unless its pid was reused meanwhile.
        let _process = ProcessRef::open(process)?;
        let mut functions = MpiFunctions::default();
        for (index, found) in self.finder.in_files(&files) {
            let file = &files[index];
            functions.refused.extend(found.refused);
            functions.handles = functions.handles.or_else(|| handles(file));
            let described = found.functions.into_iter().map(|called| {
                let signature = self.signature(file, &called.name);
                MpiFunction { elements: signature.as_deref().and_then(elements), called }
            });
            functions.files.push((FileRef::from_mapped(file), described.collect()));
        }
        Ok(functions)
    }

    /// The description of a function; the same for C and Fortran, whose arguments are addresses.
    fn signature(&self, file: &MappedFile, name: &str) -> Option<Arc<Signature>> {
        let defines = |mark: &str| {
            file.image.symbols(|symbol| symbol == mark).is_ok_and(|found| !found.is_empty())
        };
        let is_c = defines(name) || defines(&format!("P{name}"));
        is_c.then(|| self.signatures.call(file.image.file.name(), name, defines))?
    }

    fn open(&mut self, process: Identity) -> Result<Vec<ThreadCalls>, ControlError> {
        let stacks = self.stacks.read(&[process], Threads::All).pop();
        let stacks = stacks.unwrap_or(Err(ControlError::Gone))?;
        let process = ProcessRef::open(process)?;
        let thread = |it: &ThreadStack| ThreadCalls {
            tid: it.tid.cast_unsigned(),
            top: it.frames.first().map_or(0, |frame| frame.cfa),
            calls: calls(&process, it),
        };
        Ok(stacks.threads.iter().map(thread).collect())
    }
}

impl CallAnswers for RankCallReader {
    fn answer(&mut self, question: CallQuestion) -> Result<CallAnswer, ControlError> {
        match question {
            CallQuestion::Functions(process) => self.functions(process).map(CallAnswer::Functions),
            CallQuestion::Open(process) => self.open(process).map(CallAnswer::Open),
            CallQuestion::Places(process, addresses) => {
                let found = self.stacks.places_of_calls(process, &addresses)?;
                let names = found.iter().map(|it| place_name(it).to_string());
                Ok(CallAnswer::Places(names.collect()))
            }
            CallQuestion::Sizes(process, handles, all) => {
                let process = ProcessRef::open(process)?;
                let size = |handle: &u64| {
                    handles.size(*handle, |address| memory::word(&process, address).ok())
                };
                Ok(CallAnswer::Sizes(all.iter().map(size).collect()))
            }
        }
    }
}

/// The calls of MPI in a stack, outermost first.
fn calls(process: &ProcessRef, thread: &ThreadStack) -> Vec<StackCall> {
    let of_mpi = thread.frames.iter().rev().filter_map(|frame| {
        let function = unified(frame.place.function.as_deref()?)?;
        let stack = frame.cfa.checked_sub(WORD)?;
        let return_address = memory::word(process, stack).ok()?;
        Some(StackCall { function, stack, return_address })
    });
    of_mpi.collect()
}

/// What the handles of datatypes of a library are.
fn handles(file: &MappedFile) -> Option<DatatypeHandles> {
    let marks = file.image.symbols(|it| DatatypeHandles::by_symbol(it).is_some()).ok()?;
    marks.iter().find_map(|it| DatatypeHandles::by_symbol(&it.name))
}

/// The arguments with the number and the type of the elements that a call sends or writes: an
/// integer behind a buffer that the caller fills, and the type behind it.
fn elements(signature: &Signature) -> Option<(u8, u8)> {
    let parameters = &signature.parameters;
    let is_type = |index: &usize| {
        let count = &parameters[index - 1];
        parameters[*index].name.ends_with(TYPE)
            && matches!(count.kind, ValueType::Number(_))
            && !count.is_pointed
            && count.direction == Direction::In
            && parameters[..index - 1]
                .iter()
                .any(|it| it.kind == ValueType::Address && it.direction != Direction::Out)
    };
    let index = (2..parameters.len().min(MAX_ARGUMENTS)).find(is_type)?;
    let index = u8::try_from(index).ok()?;
    Some((index - 1, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: &str, want: Option<(u8, u8)>) {
        let signature = Signatures::shipped().call("libmpi.so.40", function, |_| false);
        let signature = signature.expect("it is described");
        assert_eq!(elements(&signature), want, "{function}");
    }

    #[test]
    fn what_a_call_sends_or_writes_is_known_by_its_description() {
        check("MPI_Send", Some((1, 2)));
        check("MPI_Sendrecv", Some((1, 2)));
        check("MPI_Bcast", Some((1, 2)));
        check("MPI_Allreduce", Some((2, 3)));
        check("MPI_File_write_at", Some((3, 4)));
    }

    #[test]
    fn other_calls_send_nothing() {
        for function in ["MPI_Recv", "MPI_Wait", "MPI_Type_contiguous", "MPI_Comm_split_type"] {
            check(function, None);
        }
    }
}
