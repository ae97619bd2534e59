//! Breakpoints of the processor for rule programs: a perf event for each thread of a process, which
//! later threads inherit.
//!
//! In: a program, a breakpoint, a process. Out: links, which are held here. x86 has four
//! breakpoints for each thread. The program's id is the cookie of each link (5.15).

use super::probed_thread::threads;
use crate::object::{Object, refused_program};
use aya::programs::PerfEvent;
use monitor_backend::Error;
use monitor_backend::rule::{Access, HardwareBreakpoint, ProgramId};
use monitor_model::Pid;
use monitor_sys::{bpf, perf_event};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The BPF program.
const PROGRAM: &str = "hardware_breakpoint";

/// All breakpoints of the processor.
#[derive(Default)]
pub struct HardwareBreakpoints(BTreeMap<ProgramId, Vec<OwnedFd>>);

impl HardwareBreakpoints {
    /// Sets a breakpoint in all threads of a process.
    pub fn add(
        &mut self,
        object: &mut Object,
        id: ProgramId,
        (process, breakpoint): (Pid, HardwareBreakpoint),
    ) -> Result<(), Error> {
        let what = format!("a breakpoint of the processor at {:#x}", breakpoint.address);
        let program: &mut PerfEvent = object.program(PROGRAM)?;
        if program.fd().is_err() {
            program.load().map_err(|error| refused_program(&what, error))?;
        }
        let program = program.fd().map_err(|error| refused_program(&what, error))?;
        let links = set_in_threads(process, breakpoint, (program.as_fd(), id));
        let links = links.map_err(|error| refused(what, &error))?;
        let _none = self.0.insert(id, links);
        Ok(())
    }

    /// Removes the breakpoint of a program.
    pub fn remove(&mut self, id: ProgramId) {
        let _closed = self.0.remove(&id);
    }
}

/// Sets it in all threads. One that a thread has created meanwhile may have it already: then both
/// are hit at once.
fn set_in_threads(
    process: Pid,
    breakpoint: HardwareBreakpoint,
    (program, id): (BorrowedFd<'_>, ProgramId),
) -> io::Result<Vec<OwnedFd>> {
    let (mut links, mut known) = (Vec::new(), BTreeSet::new());
    loop {
        let new: Vec<Pid> = threads(process).filter(|tid| !known.contains(tid)).collect();
        if new.is_empty() {
            return Ok(links);
        }
        for thread in new {
            let _new = known.insert(thread);
            let place = (breakpoint.address, breakpoint.length);
            match perf_event::open_breakpoint(thread, place, access(breakpoint.access)) {
                Ok(event) => {
                    links.push(bpf::link_perf_event(program, event.as_fd(), id.0.into())?);
                }
                // It has ended.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

const fn access(access: Access) -> perf_event::Access {
    match access {
        Access::Execute => perf_event::Access::Execute,
        Access::Write => perf_event::Access::Write,
        Access::ReadWrite => perf_event::Access::ReadWrite,
    }
}

fn refused(what: String, error: &io::Error) -> Error {
    let (why, fix) = match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => (
            "all breakpoints of the processor are in use in a thread".to_owned(),
            "remove another one, of a debugger too",
        ),
        Some(Errno::INVAL) => (
            "its address is not a multiple of its length, or the kernel is older than 5.15"
                .to_owned(),
            "choose 1, 2, 4 or 8 bytes at a multiple of that",
        ),
        _ => (error.to_string(), "the processor, or the machine that emulates it, may have none"),
    };
    Error::unsupported(what, why, fix)
}
