//! The course of a command that `run` counts: its family, sample by sample.
//!
//! What goes wrong with the file is said once, and costs neither the command nor its report.

use super::record::header;
use crate::cli::exit::Failure;
use crate::cli::output::say;
use monitor_backend::Backend;
use monitor_model::field::ProcessField;
use monitor_model::sample::{Sample, Source};
use monitor_model::want::Want;
use monitor_recording::{Existing, Writer};
use monitor_sampling::family::Family;
use std::path::Path;
use std::time::Duration;

/// Records a family.
pub struct Course {
    writer: Option<Writer>,
}

impl Course {
    /// Makes the file.
    pub fn create(
        (path, existing, every): (&Path, Existing, Duration),
        source: Source,
    ) -> Result<Self, Failure> {
        let header = header(source.name(), every);
        Ok(Self { writer: Some(Writer::create(path, existing, &header)?) })
    }

    /// Takes in what is of the family.
    pub fn put(&mut self, sample: &Sample, family: &Family, backend: &mut dyn Backend) {
        let Some(writer) = &mut self.writer else { return };
        let own = sample.processes.iter().filter(|process| family.has(process.id));
        let mut own = Sample { processes: own.cloned().collect(), ..rest(sample) };
        let costly = vec![ProcessField::Cmdline, ProcessField::Path, ProcessField::User];
        let want = Want { processes: true, costly, ..Want::default() };
        backend.describe(&mut own.processes, &want);
        if let Err(error) = writer.append(&own) {
            say(&error.to_string());
            self.writer = None;
        }
    }

    /// Ends the file.
    pub fn finish(self) {
        if let Some(Err(error)) = self.writer.map(Writer::finish) {
            say(&error.to_string());
        }
    }
}

/// A sample without its processes.
fn rest(sample: &Sample) -> Sample {
    Sample {
        at: sample.at,
        source: sample.source,
        node: sample.node.clone(),
        notes: sample.notes.clone(),
        lost: sample.lost.clone(),
        ..Sample::default()
    }
}
