//! TCP by process if its BPF programs are refused: from a dump of the sockets.
//!
//! In: why they were refused, and the processes of a sample. Out: the same fields, less exact, and
//! a state that reports it.

use crate::object::{Fallback, Object};
use crate::probe_reader::ProbeReader;
use monitor_backend::Error;
use monitor_backends::inet_diag::{InetDiag, MISSES, SOURCES};
use monitor_model::{Capability, Note, NoteAbout, Ns, Probe, Sample};

/// The dump.
pub struct TcpDump {
    sockets: InetDiag,
    fallback: Fallback,
    since: Ns,
}

impl TcpDump {
    /// Opens it; if it fails too, returns the error of the programs.
    pub fn open(refused: Error, since: Ns) -> Result<Self, Error> {
        let Ok(sockets) = InetDiag::open("/proc".into()) else { return Err(refused) };
        let fallback = Fallback { misses: MISSES, refused: refused.to_string() };
        Ok(Self { sockets, fallback, since })
    }
}

impl ProbeReader for TcpDump {
    fn object(&self) -> Option<&Object> {
        None
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        match self.sockets.merge_into(&mut sample.processes, sample.at.boot) {
            Ok(note) => sample.notes.extend(note),
            Err(error) => {
                let note = Note::missing(format!("no TCP counters: {error}"));
                sample.notes.push(note.about(NoteAbout::Capabilities(&[Capability::Tcp])));
            }
        }
        sample.processes.iter_mut().for_each(|process| process.count_from(self.since));
    }

    fn fallback(&self) -> Option<&Fallback> {
        Some(&self.fallback)
    }

    fn probe(&self, capability: Capability) -> Probe {
        let hooks = SOURCES.map(str::to_owned).to_vec();
        Probe { health: self.fallback.health(), hooks, ..Probe::off(capability) }
    }
}
