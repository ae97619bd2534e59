//! Selects a backend.
//!
//! In: a choice and the requested capabilities. Out: the backend, and a note for each better one
//! that does not work. An explicit choice works or is an error; only `auto` falls back.

use super::procfs::{self, Procfs, Root};
use super::{canned::Canned, ebpf::Ebpf, unsupported::Unsupported};
use monitor_backend::{Backend, Error};
use monitor_model::{Capability, Note, UnknownName, degradation::FROM_PROC, name};

/// The requested backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The best one that works.
    #[default]
    Auto,
    /// The task iterator and BPF maps.
    Ebpf,
    /// Files of `/proc`.
    Procfs,
    /// Fixed values.
    Test,
    /// None: every call fails with a reason.
    Unsupported,
}

impl BackendChoice {
    /// Names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["auto", "ebpf", "procfs", "test", "unsupported"];

    /// Name of the choice.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl std::str::FromStr for BackendChoice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        const ALL: [BackendChoice; 5] = [
            BackendChoice::Auto,
            BackendChoice::Ebpf,
            BackendChoice::Procfs,
            BackendChoice::Test,
            BackendChoice::Unsupported,
        ];
        Ok(ALL[name::position("backend", Self::NAMES.into_iter(), text)?])
    }
}

/// A working backend, and notes on why it is not a better one.
pub type Opened = (Box<dyn Backend>, Vec<Note>);

/// Opens a backend. `probe_log` is the log level of its BPF programs, from 0 (off) to 5 (trace).
pub fn open(choice: BackendChoice, wanted: &[Capability], probe_log: u8) -> Result<Opened, Error> {
    let backend: Box<dyn Backend> = match choice {
        BackendChoice::Auto => return best(wanted, probe_log),
        BackendChoice::Ebpf => Box::new(Ebpf::open(wanted, probe_log)?),
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
            notes.push(Note::remark(format!("no TCP counters: {error}")));
            Ok((Box::new(open()?), notes))
        }
    }
}

fn best(wanted: &[Capability], probe_log: u8) -> Result<Opened, Error> {
    let error = match open(BackendChoice::Ebpf, wanted, probe_log) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let (backend, mut notes) = open(BackendChoice::Procfs, wanted, probe_log)?;
    notes.insert(0, Note::remark(format!("{FROM_PROC}{error}")));
    Ok((backend, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_from_its_name() {
        assert_eq!("procfs".parse(), Ok(BackendChoice::Procfs));
    }

    #[test]
    fn an_unknown_choice_is_reported_with_the_most_similar() {
        let error = "epbf".parse::<BackendChoice>().expect_err("no such backend").to_string();
        assert_eq!(error, r#"unknown backend "epbf"; did you mean "ebpf"?"#);
    }
}
