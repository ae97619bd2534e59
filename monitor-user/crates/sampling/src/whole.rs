//! The eye of whoever wants all that a reading has, as a sample of its own: the flight recorder.
//!
//! In: readings. Out: for each a sample with those who live, those who ended since the one before,
//! what happened, the node, and the texts of all.

use super::past::Seat;
use super::view::{Reading, Seen};
use monitor_backend::Backend;
use monitor_model::field::ProcessField;
use monitor_model::sample::{Note, Sample};
use monitor_model::want::Want;

/// The eye.
pub struct Whole {
    want: Want,
    seat: Option<Seat>,
    sample: Option<Sample>,
}

impl Default for Whole {
    fn default() -> Self {
        let want = Want {
            costly: vec![
                ProcessField::Cmdline,
                ProcessField::Cgroup,
                ProcessField::User,
                ProcessField::Job,
            ],
            ..Want::whole()
        };
        Self { want, seat: None, sample: None }
    }
}

impl Whole {
    /// What must be read for it.
    pub const fn want(&self) -> &Want {
        &self.want
    }

    /// Looks at a reading.
    pub fn see(&mut self, reading: &Reading<'_>, backend: &mut dyn Backend) -> Seen {
        let seat = self.seat.as_ref();
        let (ended, missed) = reading.past.ended(seat);
        let mut sample = Sample {
            processes: reading.sample.processes.iter().chain(ended).cloned().collect(),
            events: reading.past.events(seat).0.cloned().collect(),
            notes: reading.sample.notes.clone(),
            lost: reading.sample.lost.clone(),
            dying: reading.sample.dying.clone(),
            at: reading.sample.at,
            source: reading.sample.source,
            node: reading.sample.node.clone(),
            ..Sample::default()
        };
        if missed > 0 {
            let text = format!("{missed} processes ended unseen: more than are kept for a tick");
            sample.notes.push(Note::missing(text));
        }
        if let Some((node, notes)) = reading.node {
            sample.node_stats.clone_from(node);
            sample.notes.extend_from_slice(notes);
        }
        reading.past.seen(&mut self.seat, None);
        sample.processes.sort_by_key(|it| it.id);
        // Jobs were made out with the reading.
        let mut texts = self.want.clone();
        texts.costly.retain(|it| *it != ProcessField::Job);
        backend.describe(&mut sample.processes, &texts);
        let unix = sample.at.unix;
        self.sample = Some(sample);
        Seen { unix, ..Seen::default() }
    }

    /// What it saw last.
    pub const fn take(&mut self) -> Option<Sample> {
        self.sample.take()
    }
}
