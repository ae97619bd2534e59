//! Messages put into the queue of a task of PVM, taken out of it, and marked before they are sent.
//!
//! In: a process, as it is now. Out: a batch that changes it, to be run while all its threads are
//! stopped and none is inside the library; what was read here is checked once more then. Messages
//! are made and freed by the library's own functions; the links of the queue are written.

use super::super::queue::{Result, read_stable, unavailable, walk_ring};
use super::{LIBRARY, QUEUE, SEND_BUFFER, message};
use crate::{StoppedBatch, StoppedOperand as Operand, StoppedStep as Step};
use monitor_model::Pid;
use monitor_proc::maps::{Mapping, mappings};
use monitor_symbols::resolve::{addresses, variable};
use monitor_symbols::{elf::SymbolKind, error::SymbolError, mapped_files, memory::ProcessMemory};
use std::collections::{HashMap, HashSet};
use std::{ops::Range, path::Path};

/// `PvmDataRaw`: bytes as they are.
const RAW: u64 = 1;
/// What makes a message, fills it and gives it back (src/umbuf.c and src/lpvm.c of PVM).
const MAKE: &str = "pvm_mkbuf";
const SELECT: &str = "pvm_setsbuf";
const PACK: &str = "pvm_pkbyte";
const FIND: &str = "midtobuf";
const FREE: &str = "umbuf_free";
/// The context that the task is in.
const CONTEXT: &str = "pvmmyctx";
/// Functions of the C library that may hold its memory in halves.
const ALLOCATORS: [&str; 14] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "brk",
    "sbrk",
    "mmap",
    "munmap",
    "mremap",
];

/// Inserts a message at this position of those that `messages` lists, or at the end; without a
/// sender, with tag 0.
pub fn insertion(
    proc: &Path,
    pid: Pid,
    position: Option<usize>,
    content: &[u8],
) -> Result<StoppedBatch> {
    let mut batch = batch(proc, pid)?;
    let context = variable(proc, pid, LIBRARY, CONTEXT)?;
    let context = ProcessMemory::open(proc, pid)?.int(context)?;
    let ring = QueueRing::read(proc, pid)?;
    let place = position.map_or(Ok(ring.links.len()), |position| ring.index_of(position, 1))?;
    let (before, after) = (ring.link(place.wrapping_sub(1)), ring.link(place));
    batch.steps = ring.expected();
    let call = calls(proc, pid, &[MAKE, SELECT, PACK, FIND])?;
    let length = content.len() as u64;
    let bytes = Operand::Bytes(content.to_vec());
    batch.steps.extend([
        Step::Call(call[MAKE], vec![Operand::Value(RAW)]),
        Step::ExpectSuccess(0),
        Step::Call(call[SELECT], vec![Operand::Result(0)]),
        Step::Call(call[PACK], vec![bytes, Operand::Value(length), Operand::Value(1)]),
        // What the task itself was packing is selected again.
        Step::Call(call[SELECT], vec![Operand::Result(1)]),
        Step::ExpectSuccess(2),
        Step::Call(call[FIND], vec![Operand::Result(0)]),
    ]);
    let made = || Operand::Result(4);
    let int =
        |offset, value: i32| write(made(), offset, Operand::Value(u64::from(value as u32)), 4);
    batch.steps.extend([
        int(message::LENGTH, i32::try_from(length).unwrap_or(i32::MAX)),
        int(message::CONTEXT, context),
        int(message::TAG, 0),
        int(message::SOURCE, 0),
        write(made(), message::NEXT, Operand::Value(after), 8),
        write(made(), message::BEFORE, Operand::Value(before), 8),
        write(Operand::Value(before), message::NEXT, made(), 8),
        write(Operand::Value(after), message::BEFORE, made(), 8),
    ]);
    Ok(batch)
}

/// The message at a position is dropped.
pub fn removal(proc: &Path, pid: Pid, position: usize) -> Result<StoppedBatch> {
    let mut batch = batch(proc, pid)?;
    let ring = QueueRing::read(proc, pid)?;
    let place = ring.index_of(position, 0)?;
    let (before, it, after) =
        (ring.link(place.wrapping_sub(1)), ring.link(place), ring.link(place + 1));
    batch.steps = ring.expected();
    batch.steps.extend([
        write(Operand::Value(before), message::NEXT, Operand::Value(after), 8),
        write(Operand::Value(after), message::BEFORE, Operand::Value(before), 8),
        write(Operand::Value(it), message::NEXT, Operand::Value(0), 8),
        write(Operand::Value(it), message::BEFORE, Operand::Value(0), 8),
        Step::Call(calls(proc, pid, &[FREE])?[FREE], vec![Operand::Value(it)]),
    ]);
    Ok(batch)
}

/// The message that the task is packing carries a mark from now on: the wait id of its header,
/// which goes with it to the receiver, and which tasks do not use among each other. `buffer` is
/// where `send_buffer` finds it, or 0 for whichever it is.
pub fn marking(proc: &Path, pid: Pid, buffer: u64, mark: i32) -> Result<StoppedBatch> {
    let place = variable(proc, pid, LIBRARY, SEND_BUFFER)?;
    let found = super::send_buffer(proc, pid)?.0;
    let at = ProcessMemory::open(proc, pid)?.word(place)?;
    if ![0, at, found].contains(&buffer) {
        return Err(unavailable(
            "message to send at this address",
            "the one that is being packed is elsewhere, see message_buffer",
        ));
    }
    let mark = Operand::Value(u64::from(mark as u32));
    let steps = vec![Step::Expect(place, at), write(Operand::Value(at), message::MARK, mark, 4)];
    Ok(StoppedBatch { steps, ..StoppedBatch::default() })
}

/// The links of a queue: its head, then each message.
struct QueueRing {
    links: Vec<u64>,
    /// Those that are the library's own are not counted.
    is_own: Vec<bool>,
}

impl QueueRing {
    fn read(proc: &Path, pid: Pid) -> Result<Self> {
        let place = variable(proc, pid, LIBRARY, QUEUE)?;
        let memory = ProcessMemory::open(proc, pid)?;
        read_stable(|| {
            let head = memory.word(place)?;
            if head == 0 {
                return Err(unavailable(
                    "queue of this process",
                    "it is no task of PVM yet, see pvm_mytid",
                ));
            }
            let (mut links, mut is_own) = (vec![head], vec![true]);
            walk_ring(&memory, head, message::NEXT, |at| {
                links.push(at);
                is_own.push(memory.int(at + message::SOURCE)? == super::DAEMON);
                Ok(())
            })?;
            Ok((links, is_own))
        })
        .map(|(links, is_own)| Self { links, is_own })
    }

    /// The index of a position in the ring; up to `beyond` positions after the last are accepted.
    fn index_of(&self, position: usize, beyond: usize) -> Result<usize> {
        let mut places = (0..self.links.len()).filter(|place| !self.is_own[*place]);
        let length = places.clone().count();
        if position >= length + beyond {
            return Err(SymbolError::NoPosition { position, length });
        }
        Ok(places.nth(position).unwrap_or(self.links.len()))
    }

    /// A link; behind the last comes the head.
    fn link(&self, place: usize) -> u64 {
        self.links.get(place).copied().unwrap_or(self.links[0])
    }

    /// It must still be the same when something is changed.
    fn expected(&self) -> Vec<Step> {
        let next = self.links.iter().cycle().skip(1);
        let pairs = self.links.iter().zip(next);
        pairs.map(|(at, next)| Step::Expect(at + message::NEXT, *next)).collect()
    }
}

/// Nothing yet, to be done when no thread is inside the library, or takes memory.
fn batch(proc: &Path, pid: Pid) -> Result<StoppedBatch> {
    let all = mappings(proc, pid).map_err(|source| SymbolError::File {
        call: "read",
        path: proc.join(pid.0.to_string()).join("maps"),
        source,
    })?;
    let code = |name: &str| -> Vec<Range<u64>> {
        let is_it = |it: &&Mapping| it.is_executable && is_called(it, name);
        all.iter().filter(is_it).map(|it| it.start..it.end).collect()
    };
    let library = code(LIBRARY);
    if library.is_empty() {
        return Err(unavailable(
            "moment at which the queue may be changed",
            "PVM is a part of the program, and no mapping shows whether a thread is inside it",
        ));
    }
    let outside = [library, code("ld-linux"), allocators(proc, pid)?].concat();
    Ok(StoppedBatch { outside, in_syscall_only: code("libc."), steps: Vec::new() })
}

fn is_called(it: &Mapping, name: &str) -> bool {
    let file = it.path.as_ref().and_then(|path| path.file_name());
    file.is_some_and(|file| file.to_string_lossy().starts_with(name))
}

fn allocators(proc: &Path, pid: Pid) -> Result<Vec<Range<u64>>> {
    let (files, _) = mapped_files::files(proc, pid)?;
    let libc = files.iter().filter(|it| it.image.file.name().starts_with("libc."));
    let mut found = Vec::new();
    for file in libc {
        for symbol in file.image.symbols(|name| ALLOCATORS.contains(&name))? {
            let at = file.bias.wrapping_add(symbol.address);
            found.push(at..at + symbol.size);
        }
    }
    Ok(found)
}

/// Where these functions of the library are; all of them, or which is missing.
fn calls<'n>(proc: &Path, pid: Pid, names: &[&'n str]) -> Result<HashMap<&'n str, u64>> {
    let wanted: HashSet<&str> = names.iter().copied().collect();
    let is_it = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LIBRARY))
    };
    let found = addresses((proc, pid), SymbolKind::Function, &wanted, is_it)?;
    let address = |name: &&'n str| {
        let missing = || SymbolError::NotFound {
            name: (*name).to_owned(),
            place: format!("process {}", pid.0),
            hint: String::new(),
        };
        found.get(*name).map(|at| (*name, *at)).ok_or_else(missing)
    };
    names.iter().map(address).collect()
}

fn write(base: Operand, offset: u64, value: Operand, width: usize) -> Step {
    Step::Write { base, offset, value, width }
}
