//! When to read the processes of parallel jobs, and what the readings have shown.
//!
//! In: whether jobs are to be followed, programs that are executed, ends of processes. Out: the
//! time of the next reading, and the log of transitions. While no job is there, nothing is due
//! where the kernel reports executions. Reads nothing itself: the request engine does.

use monitor_event::{EventKind, Refusal, SessionId};
use monitor_jobs::ParallelJob;
use monitor_jobs::job_log::{EndStatus, FoundLauncher, JobLog, JobTransition, ReportedHold};
use monitor_model::{Identity, Ns};
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet};

/// From the exec of a rank to the reading: others of its job begin in this time.
const AFTER_EXEC: Ns = Ns(50_000_000);
/// From the exec of a launcher to the reading.
const AFTER_LAUNCH: Ns = Ns(500_000_000);
/// From the end of a process of a job to the reading.
const AFTER_END: Ns = Ns(20_000_000);
/// Shortest time between two readings, whatever happens.
const BETWEEN_READINGS: Ns = Ns(100_000_000);
/// The same after executions: a rank may execute programs all the time.
const BETWEEN_EXECS: Ns = Ns(250_000_000);
/// Between two readings while jobs are there and a tool waits for their changes.
const WITH_CONSUMER: Ns = Ns(500_000_000);
/// Between two readings while jobs are there and no tool waits; and where executions are not
/// reported and a tool waits.
const WITHOUT_CONSUMER: Ns = Ns(2_000_000_000);
const WITHOUT_REPORTS: Ns = Ns(1_000_000_000);

/// Most jobs whose holds one tool reports at a time.
const MOST_REPORTS: usize = 64;

/// What tools wait for, of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobConsumer {
    /// Nothing.
    #[default]
    None,
    /// Ranks that start. Where executions are reported, a reading rarely finds another one.
    Ranks,
    /// Whatever changes of jobs.
    Changes,
}

/// The jobs of a node, and when to read them.
#[derive(Debug, Default)]
pub struct JobWatch {
    /// The jobs that are there, and the transitions so far.
    pub log: JobLog,
    /// Whether the configuration asks for it.
    is_configured: bool,
    consumer: JobConsumer,
    /// Whether the kernel reports executions and ends; `None` until that is known.
    are_reported: Option<bool>,
    since: Option<Ns>,
    last_reading: Ns,
    due: Option<Ns>,
    /// The processes whose ends the platform was last asked to report.
    watched: BTreeSet<Identity>,
    /// The jobs whose ranks tools hold, as they report, until they disconnect.
    reports: BTreeMap<SessionId, Vec<ParallelJob>>,
}

impl JobWatch {
    /// Whether jobs are followed also while no tool waits for their changes.
    pub const fn configure(&mut self, is_on: bool) {
        self.is_configured = is_on;
    }

    /// Whether jobs are followed now.
    pub const fn is_active(&self) -> bool {
        let is_reported = !matches!(self.are_reported, Some(false));
        !matches!(self.consumer, JobConsumer::None) || (self.is_configured && is_reported)
    }

    /// Since when they are.
    pub const fn since(&self) -> Option<Ns> {
        self.since
    }

    /// The time of the next reading.
    pub const fn due(&self) -> Option<Ns> {
        self.due
    }

    /// Begins to follow jobs, or ends it; returns whether anything has changed.
    pub fn update(&mut self, consumer: JobConsumer, now: Ns) -> bool {
        self.consumer = consumer;
        match (self.is_active(), self.since) {
            (true, None) => {
                // The platform may be another one. The reading is with the next input, when it
                // reports executions.
                self.are_reported = None;
                (self.since, self.due) = (Some(now), Some(Ns(now.0 + 1)));
                true
            }
            (false, Some(_)) => {
                (self.since, self.due) = (None, None);
                self.log.stop_following();
                self.reports.clear();
                self.watched.clear();
                true
            }
            _ => {
                if consumer == JobConsumer::Changes && self.log.n_followed() > 0 {
                    self.read_after(WITH_CONSUMER, WITH_CONSUMER, now);
                }
                false
            }
        }
    }

    /// Whether it is not known yet what the kernel reports.
    pub const fn is_unsure(&self) -> bool {
        self.are_reported.is_none()
    }

    /// Whether the kernel reports executions and ends.
    pub fn is_reported(&self) -> bool {
        self.is_active() && self.are_reported == Some(true)
    }

    /// Sets whether the kernel reports executions and ends.
    pub const fn set_reported(&mut self, is_reported: bool) {
        self.are_reported = Some(is_reported);
    }

    /// Reads again later, because it could not now.
    pub const fn retry(&mut self, now: Ns) {
        self.due = Some(Ns(now.0.saturating_add(BETWEEN_READINGS.0)));
    }

    /// The events to watch.
    pub fn kinds(&self) -> impl Iterator<Item = EventKind> {
        let executed = self.is_reported().then_some(EventKind::Executed);
        let ended = (self.is_reported() && !self.watched.is_empty()).then_some(EventKind::Ended);
        executed.into_iter().chain(ended)
    }

    /// The processes whose ends are to be reported.
    pub fn processes(&self) -> impl Iterator<Item = Identity> {
        self.watched.iter().copied()
    }

    /// A tool reports that it holds all ranks of a job, or that it has released them.
    ///
    /// # Errors
    /// If it reports of too many jobs.
    pub fn report_hold(
        &mut self,
        session: SessionId,
        (job, hold): (ParallelJob, Option<ReportedHold>),
        now: Ns,
    ) -> Result<(), Refusal> {
        if !self.is_active() {
            return Ok(());
        }
        let reports = self.reports.entry(session).or_default();
        reports.retain(|it| !is_same_job(it, &job));
        // Ranks that the kernel has stopped run again whether or not the tool is there.
        let is_of_tool = hold.is_some_and(|it| !it.by_kernel);
        if is_of_tool && reports.len() >= MOST_REPORTS {
            let why = format!("this tool reports of {MOST_REPORTS} jobs already: report a release");
            return Err(Refusal::new(Status::RESOURCE, why));
        }
        self.log.report_hold(&job, hold);
        if is_of_tool {
            reports.push(job);
        } else if reports.is_empty() {
            let _none = self.reports.remove(&session);
        }
        self.read_after(Ns(1), BETWEEN_READINGS, now);
        Ok(())
    }

    /// A tool has disconnected: no rank waits for it any more.
    pub fn end_reports(&mut self, session: SessionId, now: Ns) {
        for job in self.reports.remove(&session).unwrap_or_default() {
            if self.reports.values().flatten().any(|it| is_same_job(it, &job)) {
                continue;
            }
            self.log.report_hold(&job, None);
            self.read_after(Ns(1), BETWEEN_READINGS, now);
        }
    }

    /// Reads with the next input: a rank may have started before it was watched.
    pub fn read_soon(&mut self, now: Ns) {
        if self.is_active() {
            self.read_after(Ns(1), Ns(0), now);
        }
    }

    /// A rank was executed.
    pub fn rank_executed(&mut self, now: Ns) {
        if self.is_active() {
            self.read_after(AFTER_EXEC, BETWEEN_EXECS, now);
        }
    }

    /// A launcher was executed; returns what changed: then its end is to be watched. A reading
    /// follows also where no rank is executed: it may end before its end is watched.
    pub fn launcher_executed(&mut self, found: FoundLauncher, now: Ns) -> Option<JobTransition> {
        let new = self.log.note_launcher(found, now)?;
        let _added = self.watched.insert(found.id);
        self.read_after(AFTER_LAUNCH, BETWEEN_EXECS, now);
        Some(new)
    }

    /// A process has ended.
    pub fn process_ended(&mut self, id: Identity, at: Ns, end: EndStatus) {
        if self.log.note_end(id, at, end) {
            self.read_after(AFTER_END, BETWEEN_READINGS, at);
        }
    }

    /// Notes that a reading has ended; returns whether other processes are to be watched.
    pub fn finish_reading(&mut self, now: Ns) -> bool {
        self.last_reading = now;
        let pause = match (self.log.n_followed(), self.consumer) {
            // Its end is reported, if ends are.
            _ if self.log.awaits_launcher() => Some(match self.are_reported {
                Some(true) => WITH_CONSUMER,
                _ => BETWEEN_READINGS,
            }),
            (_, JobConsumer::Ranks) | (0, JobConsumer::Changes)
                if self.are_reported == Some(false) =>
            {
                Some(WITHOUT_REPORTS)
            }
            (0, _) => None,
            (_, JobConsumer::Changes) => Some(WITH_CONSUMER),
            (_, JobConsumer::Ranks | JobConsumer::None) => Some(WITHOUT_CONSUMER),
        };
        self.due = pause.map(|pause| Ns(now.0.saturating_add(pause.0)));
        let watched: BTreeSet<Identity> = self.log.processes().into_iter().collect();
        std::mem::replace(&mut self.watched, watched) != self.watched
    }

    /// Reads this long after now, and not sooner than this after the reading before.
    fn read_after(&mut self, delay: Ns, pause: Ns, now: Ns) {
        let after = |at: Ns, time: Ns| at.0.saturating_add(time.0);
        let at = Ns(after(now, delay).max(after(self.last_reading, pause)));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

fn is_same_job(one: &ParallelJob, other: &ParallelJob) -> bool {
    (&one.id, one.uid) == (&other.id, other.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_jobs::Runtime;
    use monitor_model::Pid;

    const SECOND: u64 = 1_000_000_000;

    fn active(is_configured: bool, reports: bool) -> JobWatch {
        let mut it = JobWatch::default();
        it.configure(is_configured);
        let _begun = it.update(JobConsumer::None, Ns(SECOND));
        it.set_reported(reports);
        it
    }

    #[test]
    fn nothing_is_due_without_a_consumer_or_a_configuration() {
        let mut it = active(false, true);
        assert!(!it.update(JobConsumer::None, Ns(2 * SECOND)));
        it.rank_executed(Ns(2 * SECOND));
        assert_eq!((it.due(), it.since(), it.kinds().count()), (None, None, 0));
    }

    #[test]
    fn the_first_reading_is_at_once_and_the_next_when_a_rank_is_executed() {
        let mut it = active(true, true);
        assert!(!it.update(JobConsumer::None, Ns(SECOND)));
        assert_eq!((it.due(), it.since()), (Some(Ns(SECOND + 1)), Some(Ns(SECOND))));
        assert!(!it.finish_reading(Ns(SECOND)));
        assert_eq!(it.due(), None);
        assert_eq!(it.kinds().collect::<Vec<_>>(), [EventKind::Executed]);
        it.rank_executed(Ns(3 * SECOND));
        assert_eq!(it.due(), Some(Ns(3 * SECOND + AFTER_EXEC.0)));
        it.rank_executed(Ns(3 * SECOND + 1));
        assert_eq!(it.due(), Some(Ns(3 * SECOND + AFTER_EXEC.0)), "the first one counts");
        let _changed = it.finish_reading(Ns(4 * SECOND));
        it.rank_executed(Ns(4 * SECOND));
        assert_eq!(it.due(), Some(Ns(4 * SECOND + BETWEEN_EXECS.0)));
    }

    #[test]
    fn without_reports_a_configuration_alone_reads_nothing_and_a_consumer_each_second() {
        let mut it = active(true, false);
        assert!(it.update(JobConsumer::None, Ns(SECOND)), "it ends");
        assert!(it.update(JobConsumer::Changes, Ns(SECOND)));
        it.set_reported(false);
        let _changed = it.finish_reading(Ns(SECOND));
        assert_eq!(it.due(), Some(Ns(2 * SECOND)));
        assert!(it.update(JobConsumer::None, Ns(2 * SECOND)), "the consumer is gone");
        assert_eq!((it.due(), it.since()), (None, None));
    }

    #[test]
    fn a_tool_that_waits_for_ranks_reads_rarely_where_executions_are_reported() {
        let due = |reports| {
            let mut it = JobWatch::default();
            assert!(it.update(JobConsumer::Ranks, Ns(SECOND)));
            it.set_reported(reports);
            let _changed = it.finish_reading(Ns(SECOND));
            assert!(!it.update(JobConsumer::Ranks, Ns(SECOND)));
            it.due()
        };
        assert_eq!((due(true), due(false)), (None, Some(Ns(2 * SECOND))));
        let mut it = active(false, true);
        it.read_soon(Ns(2 * SECOND));
        assert_eq!(it.due(), None, "nothing waits for it");
        let _begun = it.update(JobConsumer::Ranks, Ns(2 * SECOND));
        it.set_reported(true);
        let _changed = it.finish_reading(Ns(2 * SECOND));
        it.read_soon(Ns(3 * SECOND));
        assert_eq!(it.due(), Some(Ns(3 * SECOND + 1)));
    }

    #[test]
    fn a_launcher_is_watched_and_read_at_its_end() {
        let mut it = active(true, true);
        let _begun = it.update(JobConsumer::None, Ns(SECOND));
        let _changed = it.finish_reading(Ns(SECOND));
        let id = Identity { pid: Pid(7), start: Ns(7) };
        let found = FoundLauncher { id, runtime: Runtime::Hydra, uid: None, reader: None };
        assert!(it.launcher_executed(found, Ns(2 * SECOND)).is_some());
        assert_eq!(it.due(), Some(Ns(2 * SECOND + AFTER_LAUNCH.0)));
        assert_eq!(it.processes().collect::<Vec<_>>(), vec![id]);
        assert!(!it.finish_reading(Ns(2 * SECOND + AFTER_LAUNCH.0)));
        it.process_ended(id, Ns(3 * SECOND), EndStatus::default());
        assert_eq!(it.due(), Some(Ns(3 * SECOND + AFTER_END.0)));
    }

    #[test]
    fn an_end_of_another_process_is_of_no_interest() {
        let mut it = active(true, true);
        let _begun = it.update(JobConsumer::None, Ns(SECOND));
        let _changed = it.finish_reading(Ns(SECOND));
        let id = Identity { pid: Pid(7), start: Ns(7) };
        it.process_ended(id, Ns(2 * SECOND), EndStatus::default());
        assert_eq!(it.due(), None);
    }
}
