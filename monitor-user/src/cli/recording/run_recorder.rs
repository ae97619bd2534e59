//! Records the process tree of `monitor run --record`, sample by sample.
//!
//! An error of the file is printed once; it affects neither the command nor its report.

use super::record::header;
use crate::cli::exit::Failure;
use crate::cli::output::notice;
use monitor_backend::Backend;
use monitor_model::field::ProcessField;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Sample};
use monitor_recording::{Existing, Writer};
use monitor_sampling::process_tree::ProcessTree;
use std::path::Path;
use std::time::Duration;

/// Records a process tree.
pub struct RunRecorder {
    writer: Option<Writer>,
}

impl RunRecorder {
    /// Creates the file.
    pub fn create(
        (path, existing, every): (&Path, Existing, Duration),
        source: BackendKind,
    ) -> Result<Self, Failure> {
        let header = header(source.name(), every);
        Ok(Self { writer: Some(Writer::create(path, existing, &header)?) })
    }

    /// Appends the processes of the tree.
    pub fn append(&mut self, sample: &Sample, family: &ProcessTree, backend: &mut dyn Backend) {
        let Some(writer) = &mut self.writer else { return };
        let own = sample.processes.iter().filter(|process| family.has(process.id));
        let mut own = Sample { processes: own.cloned().collect(), ..without_processes(sample) };
        let costly = vec![ProcessField::Cmdline, ProcessField::Path, ProcessField::User];
        let want = ReadSpec { processes: true, costly, ..ReadSpec::default() };
        backend.describe(&mut own.processes, &want);
        if let Err(error) = writer.append(&own) {
            notice(&error.to_string());
            self.writer = None;
        }
    }

    /// Finishes the file.
    pub fn finish(self) {
        if let Some(Err(error)) = self.writer.map(Writer::finish) {
            notice(&error.to_string());
        }
    }
}

/// A sample without its processes.
fn without_processes(sample: &Sample) -> Sample {
    Sample {
        at: sample.at,
        backend: sample.backend,
        node: sample.node.clone(),
        notes: sample.notes.clone(),
        lost: sample.lost.clone(),
        ..Sample::default()
    }
}
