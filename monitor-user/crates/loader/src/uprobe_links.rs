//! Programs at many instructions of a process: by one link (`BPF_TRACE_UPROBE_MULTI`, Linux 6.6),
//! or by a perf event and a link for each (5.15).
//!
//! In: an object whose maps aya has created. Out: its uprobe programs, loaded for such links, and
//! the links. A perf event for each probe takes the kernel milliseconds to set and a tenth of a
//! second to remove; one link sets and removes all of them at a time. aya 0.14 has no such link,
//! so the instructions come from its parser, and the two calls are made here.

use crate::object::{Object, last_line, refused};
use crate::rule::probed_thread::ProbedThread;
use crate::uprobe_link::UprobeLink;
use aya::maps::{Map, MapData};
use aya_obj::Object as ParsedObject;
use monitor_backend::Error;
use monitor_model::Pid;
use monitor_sys::bpf::{self, AttachType};
use monitor_sys::perf_event;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of the verifier's log, if a program is refused.
const LOG_BYTES: usize = 1 << 20;
/// Most sites of a link (`MAX_UPROBE_MULTI_CNT` of kernel/trace/bpf_trace.c).
const MAX_SITES: usize = 1 << 20;

/// A program that links can be made of.
#[derive(Debug)]
pub struct LinkedProgram {
    program: OwnedFd,
    kind: LinkKind,
}

/// What a link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// All probes of a process in a file (6.6).
    Many,
    /// One probe (5.15).
    Single,
}

/// When a probe is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePosition {
    /// Before an instruction.
    Instruction,
    /// When the call has returned that begins with it: the kernel replaces its return address.
    ReturnOfCall,
}

/// Loads programs of an object for links of a kind; `None` if the kernel does not have it.
///
/// # Errors
/// If the kernel refuses one otherwise: privileges are missing.
pub fn load<const N: usize>(
    object: &Object,
    names: [&'static str; N],
    kind: LinkKind,
) -> Result<Option<[LinkedProgram; N]>, Error> {
    let parsed = relocated(object)?;
    let mut programs = Vec::new();
    for name in names {
        match load_program(object.name, &parsed, (name, kind))? {
            Some(program) if has_links(program.as_fd(), kind) => {
                programs.push(LinkedProgram { program, kind });
            }
            _ => return Ok(None),
        }
    }
    let count = programs.len();
    let all = programs.try_into();
    all.map(Some).map_err(|_| malformed(object.name, format!("{N} programs, not {count}")))
}

/// Whether the kernel has links of a kind; kernels without those of many load the programs, too.
fn has_links(program: BorrowedFd<'_>, kind: LinkKind) -> bool {
    let own = Pid(std::process::id());
    // A folder has no instructions: where the kernel gets that far, the error is `EBADF`.
    let refused = || bpf::link_uprobes(program, own, c"/", &[(0, 0)]).err();
    kind == LinkKind::Single
        || refused().is_some_and(|it| Errno::from_io_error(&it) == Some(Errno::BADF))
}

/// The object with the descriptors of its maps in its instructions.
fn relocated(object: &Object) -> Result<ParsedObject, Error> {
    let failed = |error: String| malformed(object.name, error);
    let parsed = ParsedObject::parse(Object::bytes(object.name)?);
    let mut parsed = parsed.map_err(|error| failed(error.to_string()))?;
    let maps: HashMap<_, _> = parsed.maps.drain().collect();
    let created = maps.iter().filter_map(|(name, map)| {
        let data = data_of(object.ebpf.map(name)?)?;
        Some((name.as_str(), data.fd().as_fd().as_raw_fd(), map))
    });
    let created: Vec<_> = created.collect();
    let sections = parsed.functions.keys().map(|(section, _)| *section).collect();
    let relocated = parsed.relocate_maps(created.into_iter(), &sections);
    relocated.map_err(|error| failed(error.to_string()))?;
    parsed.relocate_calls(&sections).map_err(|error| failed(error.to_string()))?;
    Ok(parsed)
}

/// A map of the kinds that such objects have.
const fn data_of(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => Some(data),
        _ => None,
    }
}

fn load_program(
    object: &'static str,
    parsed: &ParsedObject,
    (name, kind): (&'static str, LinkKind),
) -> Result<Option<OwnedFd>, Error> {
    let program = parsed.programs.get(name);
    let program = program.ok_or_else(|| malformed(object, format!("a program {name}")))?;
    let insns = &parsed.functions[&program.function_key()].instructions;
    let insns: Vec<u8> = insns.iter().flat_map(encoded).collect();
    let attach_type = match kind {
        LinkKind::Many => AttachType::UprobeMulti,
        LinkKind::Single => AttachType::PerfEvent,
    };
    let load =
        |log: &mut [u8]| bpf::load_uprobe_program(&insns, attach_type, &program.license, log);
    let error = match load(&mut []) {
        Ok(program) => return Ok(Some(program)),
        Err(error) => error,
    };
    let what = format!("probes of the program {name}");
    match Errno::from_io_error(&error) {
        // The attach type, or a helper, is unknown.
        Some(Errno::INVAL) => Ok(None),
        Some(Errno::ACCESS) => {
            let mut log = vec![0; LOG_BYTES];
            let again = load(&mut log);
            let text = String::from_utf8_lossy(&log);
            tracing::debug!(name, again = again.is_ok(), log = %text, "the verifier refused it");
            let why = format!("the kernel refused it: {}", last_line(text.trim_end_matches('\0')));
            Err(Error::unsupported(what, why, "report it with the kernel's release"))
        }
        _ => Err(refused(&what, &error, "bpf_prog_load")),
    }
}

/// The bytes of an instruction.
fn encoded(insn: &aya_obj::generated::bpf_insn) -> [u8; 8] {
    let registers = insn.dst_reg() | insn.src_reg() << 4;
    let ([o0, o1], [i0, i1, i2, i3]) = (insn.off.to_ne_bytes(), insn.imm.to_ne_bytes());
    [insn.code, registers, o0, o1, i0, i1, i2, i3]
}

fn malformed(object: &str, want: String) -> Error {
    Error::malformed(format!("object {object}"), want)
}

impl LinkedProgram {
    /// What its links have.
    pub const fn kind(&self) -> LinkKind {
        self.kind
    }

    /// Sets probes at offsets of a file in a process, each with a cookie; `None` if the process has
    /// ended.
    ///
    /// # Errors
    /// If the kernel refuses one of them: then none is set.
    pub fn attach(
        &self,
        process: Pid,
        (file, position): (&Path, ProbePosition),
        sites: &[(u64, u64)],
    ) -> Result<Option<Vec<UprobeLink>>, Error> {
        let what = format!("{} probes on {}", sites.len(), file.display());
        if sites.len() > MAX_SITES {
            return Err(Error::unsupported(what, "they are too many", "watch fewer functions"));
        }
        let path = CString::new(file.as_os_str().as_bytes());
        let path = path.map_err(|_| Error::malformed(what.clone(), "a path without NUL"))?;
        let is_return = position == ProbePosition::ReturnOfCall;
        if self.kind == LinkKind::Single {
            return self.attach_each(process, (&path, is_return), (sites, &what));
        }
        let program = self.program.as_fd();
        let linked = match position {
            ProbePosition::Instruction => bpf::link_uprobes(program, process, &path, sites),
            ProbePosition::ReturnOfCall => bpf::link_uretprobes(program, process, &path, sites),
        };
        match linked {
            Ok(link) => Ok(Some(vec![UprobeLink::new(link)])),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
            Err(error) => Err(refused(&what, &error, "bpf_link_create")),
        }
    }

    /// The same by an event for each.
    fn attach_each(
        &self,
        process: Pid,
        (path, is_return): (&CStr, bool),
        (sites, what): (&[(u64, u64)], &str),
    ) -> Result<Option<Vec<UprobeLink>>, Error> {
        let thread = ProbedThread::of_process(process);
        let mut links = Vec::new();
        for (offset, cookie) in sites {
            let event = match perf_event::open_uprobe(thread.tid, (path, *offset), is_return) {
                Ok(event) => event,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => return Ok(None),
                Err(error) => return Err(refused(what, &error, "perf_event_open")),
            };
            match bpf::link_perf_event(self.program.as_fd(), event.as_fd(), *cookie) {
                // The link has the event.
                Ok(link) => links.push(UprobeLink::new(link)),
                Err(error) => {
                    drop(UprobeLink::new(event));
                    return Err(refused(what, &error, "bpf_link_create"));
                }
            }
        }
        Ok(Some(links))
    }
}
