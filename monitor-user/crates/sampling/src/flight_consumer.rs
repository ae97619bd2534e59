//! The consumer for the flight recorder: complete samples.
//!
//! In: readings. Out: for each a sample with the living processes, those that ended since the
//! previous one, events, the node, and all texts.

use super::exit_log::Cursor;
use super::view::{Output, Reading};
use monitor_backend::Backend;
use monitor_model::{Note, ProcessField, ReadSpec, Sample};

/// The consumer for the flight recorder.
pub struct FlightConsumer {
    read_spec: ReadSpec,
    cursor: Option<Cursor>,
    sample: Option<Sample>,
}

impl Default for FlightConsumer {
    fn default() -> Self {
        let read_spec = ReadSpec {
            costly: vec![
                ProcessField::Cmdline,
                ProcessField::Cgroup,
                ProcessField::User,
                ProcessField::Job,
            ],
            ..ReadSpec::everything()
        };
        Self { read_spec, cursor: None, sample: None }
    }
}

impl FlightConsumer {
    /// What must be read for it.
    pub const fn read_spec(&self) -> &ReadSpec {
        &self.read_spec
    }

    /// Consumes a reading; [`Self::take_sample`] returns the sample.
    pub fn consume(&mut self, reading: &Reading<'_>, backend: &mut dyn Backend) -> Output {
        let cursor = self.cursor.as_ref();
        let (ended, missed) = reading.exit_log.ended(cursor);
        let mut sample = Sample {
            processes: reading.sample.processes.iter().chain(ended).cloned().collect(),
            events: reading.exit_log.events(cursor).0.cloned().collect(),
            notes: reading.sample.notes.clone(),
            lost: reading.sample.lost.clone(),
            dying: reading.sample.dying.clone(),
            all_visible: reading.sample.all_visible,
            at: reading.sample.at,
            time_error: reading.sample.time_error,
            backend: reading.sample.backend,
            node: reading.sample.node.clone(),
            ..Sample::default()
        };
        if missed > 0 {
            let text = format!(
                "{missed} exit records dropped: more than the exit log holds between two samples"
            );
            sample.notes.push(Note::missing(text));
        }
        if let Some((node, notes)) = reading.node {
            sample.node_stats = node.as_deref().cloned();
            sample.notes.extend_from_slice(notes);
        }
        reading.exit_log.seen(&mut self.cursor, None);
        sample.processes.sort_by_key(|it| it.id);
        // Jobs were resolved with the reading.
        let mut texts = self.read_spec.clone();
        texts.costly.retain(|it| *it != ProcessField::Job);
        backend.describe(&mut sample.processes, &texts);
        let unix = sample.at.unix;
        self.sample = Some(sample);
        Output { unix, ..Output::default() }
    }

    /// Takes the last sample.
    pub const fn take_sample(&mut self) -> Option<Sample> {
        self.sample.take()
    }
}
