//! Selects a backend.
//!
//! In: a choice and the requested capabilities. Out: the backend, and a note for each better one
//! that does not work. An explicit choice works or is an error; only `auto` falls back.

use crate::call_profile::KernelCallProfiler;
use crate::{Ebpf, Readings, rule::KernelRules};
use monitor_backend::{Backend, BackendChoice, Error, Opened, Opener};
use monitor_backends::procfs::{self, Procfs, Root};
use monitor_backends::{canned::Canned, unsupported::Unsupported};
use monitor_model::{Capability, Note, NoteAbout, degradation::FROM_PROC};

/// What opens the chosen backend, without a log of its BPF programs.
pub fn opener(choice: BackendChoice) -> Opener {
    Opener {
        choice,
        open_backend: |choice, wanted| open(choice, wanted, 0),
        open_rules: || Ok(Box::new(KernelRules::open()?)),
        open_event_rules: || Ok(Box::new(KernelRules::open_for_events()?)),
        open_call_profiler: KernelCallProfiler::open,
    }
}

/// Opens a backend. `probe_log` is the log level of its BPF programs, from 0 (off) to 5 (trace).
pub fn open(choice: BackendChoice, wanted: &[Capability], probe_log: u8) -> Result<Opened, Error> {
    open_for(Readings::Many, choice, wanted, probe_log)
}

/// The same, with what this number of readings needs.
pub fn open_for(
    readings: Readings,
    choice: BackendChoice,
    wanted: &[Capability],
    probe_log: u8,
) -> Result<Opened, Error> {
    let ebpf = || Ebpf::open_for(readings, wanted, probe_log);
    let backend: Box<dyn Backend> = match choice {
        BackendChoice::Auto => return best(ebpf(), wanted),
        BackendChoice::Ebpf => Box::new(ebpf()?),
        BackendChoice::Procfs => return procfs(wanted),
        BackendChoice::Test => Box::new(Canned::fixed()),
        BackendChoice::Unsupported => {
            Box::new(Unsupported::new("it was selected", "select another backend"))
        }
    };
    Ok((backend, Vec::new()))
}

/// The `/proc` backend, with TCP by inet_diag if requested and available, and notes on requested
/// capabilities that it lacks.
fn procfs(wanted: &[Capability]) -> Result<Opened, Error> {
    let open = || Procfs::open(Root::default());
    let mut notes: Vec<Note> = procfs::missing_capabilities(wanted).into_iter().collect();
    if !wanted.contains(&Capability::Tcp) {
        return Ok((Box::new(open()?), notes));
    }
    match open()?.with_tcp() {
        Ok(backend) => Ok((Box::new(backend), notes)),
        Err(error) => {
            let note = Note::remark(format!("no TCP counters: {error}"));
            notes.push(note.about(NoteAbout::Capabilities(&[Capability::Tcp])));
            Ok((Box::new(open()?), notes))
        }
    }
}

fn best(ebpf: Result<Ebpf, Error>, wanted: &[Capability]) -> Result<Opened, Error> {
    let error = match ebpf {
        Ok(backend) => return Ok((Box::new(backend), Vec::new())),
        Err(error) => error,
    };
    let (backend, mut notes) = procfs(wanted)?;
    notes.insert(0, Note::remark(format!("{FROM_PROC}{error}")));
    Ok((backend, notes))
}
