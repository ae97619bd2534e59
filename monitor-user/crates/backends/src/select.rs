//! The one place where a backend is chosen.
//!
//! In: a choice, the capabilities asked for. Out: the backend, and a note for each better one that
//! would not work. A choice that is forced works or is an error; only `auto` falls back.

use super::canned::Canned;
use super::ebpf::Ebpf;
use super::procfs::{self, Procfs, Root};
use super::unsupported::Unsupported;
use monitor_backend::{Backend, Error};
use monitor_model::name;
use monitor_model::name::Unknown;
use monitor_model::sample::Note;
use monitor_model::shortfall::FROM_PROC;
use monitor_model::want::Capability;

/// Which backend is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best that works.
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

impl Choice {
    /// Their names, in the order of the enum.
    pub const NAMES: [&str; 5] = ["auto", "ebpf", "procfs", "test", "unsupported"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl std::str::FromStr for Choice {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        const ALL: [Choice; 5] =
            [Choice::Auto, Choice::Ebpf, Choice::Procfs, Choice::Test, Choice::Unsupported];
        Ok(ALL[name::position("backend", Self::NAMES.into_iter(), text)?])
    }
}

/// A backend that works, and why it is not a better one.
pub type Opened = (Box<dyn Backend>, Vec<Note>);

/// Opens the backend that was chosen. What its programs log goes from 0, nothing, to 5, all.
pub fn open(choice: Choice, wanted: &[Capability], probe_log: u8) -> Result<Opened, Error> {
    let backend: Box<dyn Backend> = match choice {
        Choice::Auto => return best(wanted, probe_log),
        Choice::Ebpf => Box::new(Ebpf::open(wanted, probe_log)?),
        Choice::Procfs => return procfs(wanted),
        Choice::Test => Box::new(Canned::fixed()),
        Choice::Unsupported => Box::new(Unsupported::new("it was chosen", "choose another")),
    };
    Ok((backend, Vec::new()))
}

/// `/proc`, with the list of sockets where TCP is wanted and there is one; and what of the wanted
/// it cannot give.
fn procfs(wanted: &[Capability]) -> Result<Opened, Error> {
    let open = || Procfs::open(Root::default());
    let mut notes: Vec<Note> = procfs::lacking(wanted).into_iter().collect();
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
    let error = match open(Choice::Ebpf, wanted, probe_log) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let (backend, mut notes) = open(Choice::Procfs, wanted, probe_log)?;
    notes.insert(0, Note::remark(format!("{FROM_PROC}{error}")));
    Ok((backend, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_from_its_name() {
        assert_eq!("procfs".parse(), Ok(Choice::Procfs));
    }

    #[test]
    fn an_unknown_choice_is_told_with_the_nearest() {
        let told = "epbf".parse::<Choice>().expect_err("no such backend").to_string();
        assert_eq!(told, r#"unknown backend "epbf"; did you mean "ebpf"?"#);
    }
}
