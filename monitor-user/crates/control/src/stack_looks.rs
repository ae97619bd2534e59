//! Readings of the call stacks of ranks over a time, between which the user worker does other work.
//!
//! In: the ranks, how often and how far apart. Out: an event with the merged stacks when the last
//! look is done, or when [`LONGEST`] has passed: the rows say how many looks there were. A tool
//! that is gone ends its own.

use crate::rank_stacks::RankStackReader;
use crate::stack_rows::StackOptions;
use crate::{ControlError, RequestTag, ToolId, WorkerEvent, WorkerEventKind};
use monitor_event::Target;
use monitor_model::Identity;
use std::time::{Duration, Instant};

/// Most series of looks of a user at a time.
const MAX_SERIES: usize = 4;
/// Longest time from the first look of a series to the last.
const LONGEST: Duration = Duration::from_secs(40);

/// The series of looks that are going on.
#[derive(Default)]
pub struct StackLooks(Vec<LookSeries>);

struct LookSeries {
    requester: (ToolId, RequestTag),
    reader: RankStackReader,
    options: StackOptions,
    /// The last look may not be later.
    until: Instant,
    /// When the next look is.
    next: Instant,
}

impl StackLooks {
    /// Begins a series at ranks, each with its process.
    ///
    /// # Errors
    /// If the user has too many.
    pub fn begin(
        &mut self,
        requester: (ToolId, RequestTag),
        ranks: Vec<(u32, Identity)>,
        options: StackOptions,
    ) -> Result<(), ControlError> {
        if self.0.len() >= MAX_SERIES {
            let why = format!("{MAX_SERIES} series of looks are going on, the maximum");
            return Err(ControlError::Exhausted(why));
        }
        let now = Instant::now();
        let reader = RankStackReader::new(ranks, options.threads, options.lines);
        self.0.push(LookSeries { requester, reader, options, until: now + LONGEST, next: now });
        Ok(())
    }

    /// Looks where it is time, once; reports the series that have ended.
    pub fn poll(&mut self, events: &mut Vec<WorkerEvent>) {
        let due = self.0.iter_mut().filter(|it| it.next <= Instant::now());
        let Some(series) = due.min_by_key(|it| it.next) else { return };
        if series.read_once() {
            return;
        }
        let requester = series.requester;
        let ended = self.0.extract_if(.., |it| it.requester == requester);
        events.extend(ended.map(|series| {
            let rows = series.reader.rows().map(Box::new);
            let kind = WorkerEventKind::StacksRead(rows);
            let target = Target::from(Identity::default());
            WorkerEvent { target, requester: Some(series.requester), kind }
        }));
    }

    /// When `poll` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().map(|it| it.next).min()
    }

    /// Ends the series of a tool without a report.
    pub fn forget_tool(&mut self, tool: ToolId) {
        self.0.retain(|it| it.requester.0 != tool);
    }
}

impl LookSeries {
    /// Looks once; returns whether another look follows.
    fn read_once(&mut self) -> bool {
        let begun = Instant::now();
        self.reader.read_in_time();
        // The time between the beginnings of looks; one that takes longer is followed at once.
        self.next = begun + self.options.every;
        self.reader.looks() < self.options.looks && self.next <= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_rows::Threads;

    fn options(looks: usize) -> StackOptions {
        let every = Duration::ZERO;
        StackOptions { threads: Threads::First, lines: false, looks, every }
    }

    fn requester(tool: u64) -> (ToolId, RequestTag) {
        (ToolId(tool), RequestTag(tool))
    }

    #[test]
    fn a_series_is_reported_after_its_last_look_and_one_look_is_made_at_a_time() {
        let (mut looks, mut events) = (StackLooks::default(), Vec::new());
        looks.begin(requester(1), Vec::new(), options(3)).unwrap();
        for _ in 0..2 {
            looks.poll(&mut events);
            assert!(events.is_empty() && looks.next_deadline().is_some());
        }
        looks.poll(&mut events);
        let Some(WorkerEventKind::StacksRead(Ok(rows))) = events.first().map(|it| &it.kind) else {
            panic!("{events:?}");
        };
        assert_eq!((rows.looks, looks.next_deadline()), (3, None));
    }

    #[test]
    fn a_tool_that_is_gone_ends_its_series_and_a_user_has_a_limit_of_them() {
        let (mut looks, mut events) = (StackLooks::default(), Vec::new());
        for tool in 1..=4 {
            looks.begin(requester(tool), Vec::new(), options(9)).unwrap();
        }
        assert!(looks.begin(requester(5), Vec::new(), options(9)).is_err());
        (1..=4).for_each(|tool| looks.forget_tool(ToolId(tool)));
        looks.poll(&mut events);
        assert!(events.is_empty() && looks.next_deadline().is_none());
    }
}
