//! Transitions of jobs that readings describe.

use super::followed::{KNOWN_ENDS, LAUNCHER_GRACE};
use super::tracer_lookups::ASKED_FOR_TRACER;
use super::*;
use crate::discovery::RankProcesses;
use crate::hold_table::HoldPoint;
use crate::runtime::Runtime;
use monitor_model::Pid;
use std::cell::Cell;

const LAUNCHER: u32 = 10;
/// A launcher that is no ancestor of ranks.
const SRUN: u32 = 11;

fn id(pid: u32) -> Identity {
    Identity { pid: Pid(pid), start: Ns(u64::from(pid)) }
}

/// A job of user 7 that is to have two ranks here.
fn job(name: &str, ranks: &[u32], state: JobState) -> FoundJob {
    let process = |pid| RankProcesses { rank: pid, process: id(pid), all: vec![id(pid)] };
    let job = ParallelJob {
        id: name.into(),
        runtime: Runtime::OpenMpi4,
        launcher: Some(id(LAUNCHER)),
        daemon: None,
        uid: Some(7),
        ranks: ranks.iter().copied().map(process).collect(),
        local_size: Some(2),
        size: Some(2),
        state,
        start: Ns(20),
    };
    FoundJob { job, reader: None }
}

/// A log, and the launchers that run.
#[derive(Default)]
struct World {
    is_stopped: bool,
    log: JobLog,
    launcher_runs: bool,
    tracer: Option<Pid>,
    is_launch_traced: bool,
}

/// Processes that are all there, and that nothing traces.
const ALL_RUN: ProcessStates<'_> =
    ProcessStates { is_running: &|_| true, is_stopped: &|_| false, tracer: &|_| None };

impl World {
    #[track_caller]
    fn check(&mut self, at: u64, jobs: &[FoundJob], want: &str) -> Vec<JobTransition> {
        let (runs, tracer, stopped) = (self.launcher_runs, self.tracer, self.is_stopped);
        let of_launch = self.is_launch_traced.then_some(Pid(99));
        let states = ProcessStates {
            is_running: &|it| runs && it == id(LAUNCHER),
            is_stopped: &|_| stopped,
            tracer: &|it| match it.pid {
                Pid(21) => tracer,
                Pid(LAUNCHER | SRUN) => of_launch,
                _ => None,
            },
        };
        let new = self.log.compare(Ns(at), jobs, &states);
        let names: Vec<_> =
            new.iter().map(|it| format!("{} {}", it.id, it.change.name())).collect();
        assert_eq!(names.join(", "), want);
        new
    }
}

fn end(code: u32, signal: u32) -> EndStatus {
    EndStatus { code: Some(code), signal: Some(signal) }
}

#[test]
fn a_job_runs_when_all_its_ranks_are_there() {
    let mut world = World::default();
    world.check(30, &[], "");
    world.check(40, &[job("a", &[20], JobState::Incomplete)], "a launching");
    let all = [job("a", &[20, 21], JobState::Running)];
    let new = world.check(50, &all, "a running");
    assert_eq!((new[0].ranks, new[0].age, new[0].launcher), (2, Ns(30), Some(Pid(LAUNCHER))));
    world.check(60, &all, "");
    world.check(70, &[job("a", &[21], JobState::Incomplete)], "");
    world.check(80, &all, "");
}

#[test]
fn stops_and_continuations_are_of_all_ranks() {
    let mut world = World::default();
    let [running, stopped] =
        [JobState::Running, JobState::Stopped].map(|state| [job("a", &[20, 21], state)]);
    world.check(30, &running, "a launching, a running");
    assert_eq!(world.check(40, &stopped, "a stopped")[0].place, None);
    world.check(50, &stopped, "");
    world.check(60, &running, "a running");
}

/// A hold that a tool reports at this place.
const fn hold(place: HoldPoint, by_kernel: bool) -> Option<ReportedHold> {
    Some(ReportedHold { place, by_kernel })
}

#[test]
fn a_job_that_begins_stopped_is_so_with_the_place_that_its_launch_reports() {
    let mut world = World::default();
    let [part, stopped, running] = [
        job("a", &[20], JobState::Stopped),
        job("a", &[20, 21], JobState::Stopped),
        job("a", &[20, 21], JobState::Running),
    ];
    world.check(30, std::slice::from_ref(&part), "a launching");
    world.log.report_hold(&stopped.job, hold(HoldPoint::Exec, true));
    world.is_stopped = true;
    let new = world.check(40, std::slice::from_ref(&stopped), "a stopped, a ready-for-debug");
    assert_eq!((new[0].place, new[1].place), (Some(HoldPoint::Exec), Some(HoldPoint::Exec)));
    world.check(50, std::slice::from_ref(&stopped), "");
    world.is_stopped = false;
    world.check(60, &[running], "a running");
    // Another stop is of another kind.
    assert_eq!(world.check(70, std::slice::from_ref(&stopped), "a stopped")[0].place, None);
    // Nothing is reported: a debugger, or a tool of another service.
    let mut world = World { is_stopped: true, ..World::default() };
    world.check(30, std::slice::from_ref(&stopped), "a launching");
    assert_eq!(world.check(40, std::slice::from_ref(&stopped), "a stopped")[0].place, None);
    world.log.report_hold(&stopped.job, hold(HoldPoint::Init, true));
    let new = world.check(50, &[stopped], "a ready-for-debug");
    assert_eq!(new[0].place, Some(HoldPoint::Init));
}

#[test]
fn a_job_with_some_ranks_stopped_from_the_first_reading_on_runs_at_the_second() {
    let mut world = World { is_stopped: true, ..World::default() };
    let [part, mixed, stopped] = [
        job("a", &[20], JobState::Stopped),
        job("a", &[20, 21], JobState::Running),
        job("a", &[20, 21], JobState::Stopped),
    ];
    world.check(30, std::slice::from_ref(&part), "a launching");
    world.check(40, std::slice::from_ref(&mixed), "");
    world.log.report_hold(&stopped.job, hold(HoldPoint::Exec, true));
    world.check(50, std::slice::from_ref(&stopped), "a stopped, a ready-for-debug");
    // One of them is stopped by another program.
    let mut world = World { is_stopped: true, ..World::default() };
    world.check(30, std::slice::from_ref(&mixed), "a launching");
    world.check(40, &[mixed], "a running");
}

#[test]
fn ranks_of_a_launch_that_is_traced_may_be_held_a_reading_later() {
    let mut world = World { is_launch_traced: true, ..World::default() };
    let all = job("a", &[20, 21], JobState::Running);
    world.check(30, std::slice::from_ref(&all), "a launching");
    world.check(40, &[all], "a running");
    let mut step = job("b", &[20, 21], JobState::Running);
    (step.job.runtime, step.job.launcher) = (Runtime::Slurm, None);
    let srun = |uid| FoundLauncher { id: id(SRUN), runtime: Runtime::Slurm, uid, reader: None };
    for (uid, want) in [(Some(8), "b launching, b running"), (Some(7), "b launching")] {
        let mut world = World { is_launch_traced: true, ..World::default() };
        assert!(world.log.note_launcher(srun(uid), Ns(20)).is_some());
        world.check(30, std::slice::from_ref(&step), want);
    }
}

#[test]
fn ranks_that_wait_in_a_library_are_held_until_that_is_reported() {
    let mut world = World::default();
    let waiting = job("a", &[20, 21], JobState::Running);
    world.log.report_hold(&waiting.job, hold(HoldPoint::App, false));
    let want = "a launching, a stopped, a ready-for-debug";
    let new = world.check(30, std::slice::from_ref(&waiting), want);
    assert_eq!(new[1].place, Some(HoldPoint::App));
    world.check(40, std::slice::from_ref(&waiting), "");
    world.log.report_hold(&waiting.job, None);
    world.check(50, &[waiting], "a running");
}

#[test]
fn holds_of_jobs_that_are_never_seen_have_a_limit() {
    let mut log = JobLog::default();
    for n in 0..300 {
        let unseen = job(&n.to_string(), &[20], JobState::Stopped);
        log.report_hold(&unseen.job, hold(HoldPoint::Exec, true));
    }
    assert_eq!(log.holds.len(), MAX_JOBS_OF_USER);
    log.report_hold(&job("7", &[20], JobState::Stopped).job, None);
    assert_eq!(log.holds.len(), MAX_JOBS_OF_USER - 1);
}

#[test]
fn the_end_has_the_status_of_the_launcher_which_is_awaited() {
    let mut world = World { launcher_runs: true, ..World::default() };
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    assert!(world.log.note_end(id(20), Ns(38), end(0, 0)));
    assert!(!world.log.note_end(id(99), Ns(38), end(0, 0)));
    world.check(40, &[], "");
    assert!(world.log.awaits_launcher());
    assert!(world.log.note_end(id(LAUNCHER), Ns(45), end(3, 0)));
    world.launcher_runs = false;
    let new = world.check(50, &[], "a ended");
    assert_eq!((new[0].at, new[0].end, new[0].ranks), (Ns(45), end(3, 0), 2));
    assert_eq!(world.log.n_followed(), 0);
    let kept: Vec<_> = world.log.transitions().map(|it| it.change.name()).collect();
    assert_eq!(kept, ["launching", "running", "ended"]);
}

#[test]
fn a_launcher_that_stays_is_not_awaited_for_ever() {
    let mut world = World { launcher_runs: true, ..World::default() };
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    assert!(world.log.note_end(id(21), Ns(35), end(137, 9)));
    assert!(world.log.note_end(id(20), Ns(36), end(143, 15)));
    let new = world.check(40, &[job("a", &[20, 21], JobState::Ended)], "a failed");
    assert_eq!((new[0].end, new[0].at, new[0].rank), (end(137, 9), Ns(35), Some(21)));
    let new = world.check(40 + LAUNCHER_GRACE.0, &[], "a ended");
    assert_eq!((new[0].end, new[0].at), (end(137, 9), Ns(36)));
}

#[test]
fn a_status_is_unknown_where_an_end_was_not_seen() {
    let mut world = World::default();
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    assert!(world.log.note_end(id(20), Ns(35), end(0, 0)));
    let new = world.check(40, &[], "a ended");
    assert_eq!(new[0].end, EndStatus::default());
}

#[test]
fn another_job_with_the_same_id_is_another_one() {
    let mut world = World::default();
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    let mut next = job("a", &[50, 51], JobState::Running);
    next.job.start = Ns(50);
    world.check(60, &[next], "a ended, a launching, a running");
}

#[test]
fn the_user_with_the_most_transitions_loses_the_oldest() {
    let mut world = World::default();
    let mut other = job("other", &[20, 21], JobState::Running);
    other.job.uid = Some(8);
    world.check(30, &[other.clone()], "other launching, other running");
    for at in 0..u64::try_from(MAX_TRANSITIONS).unwrap() {
        let state = if at % 2 == 0 { JobState::Running } else { JobState::Stopped };
        let jobs = [other.clone(), job("a", &[30, 31], state)];
        let _new = world.log.compare(Ns(40 + at), &jobs, &ALL_RUN);
    }
    assert_eq!(world.log.transitions().count(), MAX_TRANSITIONS);
    let of_other = world.log.transitions().filter(|it| it.uid == Some(8));
    assert_eq!(of_other.count(), 2);
}

#[test]
fn a_user_has_a_limit_of_jobs() {
    let mut world = World::default();
    let all: Vec<_> =
        (0..300).map(|n| job(&n.to_string(), &[1000 + n], JobState::Running)).collect();
    let new = world.log.compare(Ns(30), &all, &ALL_RUN);
    assert_eq!((new.len(), world.log.n_followed()), (MAX_JOBS_OF_USER, MAX_JOBS_OF_USER));
}

#[test]
fn a_job_whose_ranks_are_replaced_for_ever_takes_a_bounded_room() {
    let mut world = World::default();
    let of = |first: u32| [job("a", &[20, first, first + 1], JobState::Running)];
    world.check(30, &of(100), "a launching, a running");
    for first in (102..2000).step_by(2) {
        assert!(world.log.note_end(id(first - 1), Ns(40), end(u32::from(first == 104), 0)));
        world.check(40, &of(first), if first == 104 { "a failed" } else { "" });
        assert!(world.log.processes().len() <= KNOWN_ENDS + 4);
    }
    world.log.note_end(id(LAUNCHER), Ns(50), EndStatus::default());
    let new = world.check(60, &[], "a ended");
    assert_eq!(new[0].end, end(1, 0));
}

#[test]
fn a_user_cannot_have_all_the_room_for_ends_nor_a_long_id() {
    let mut world = World::default();
    let ranks: Vec<u32> = (100..5000).collect();
    world.check(30, &[job("a", &ranks, JobState::Running)], "a launching, a running");
    assert_eq!(world.log.processes().len(), WATCHED.0);
    assert!(world.log.processes().contains(&id(LAUNCHER)));
    world.log.stop_following();
    world.check(30, &[job(&"a".repeat(256), &[20], JobState::Running)], "");
}

#[test]
fn a_job_is_named_by_the_beginning_of_its_id_or_its_launcher() {
    let new = World::default().check(
        30,
        &[job("1200", &[20, 21], JobState::Running)],
        "1200 launching, 1200 running",
    );
    let named = ["", "12", "1200", "10", "13", "20"].map(|written| new[0].is_of(written));
    assert_eq!(named, [true, true, true, true, false, false]);
}

#[test]
fn the_first_rank_that_fails_is_reported_once_while_the_others_run() {
    let mut world = World::default();
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    assert!(world.log.note_end(id(21), Ns(35), end(3, 0)));
    let new = world.check(40, &[job("a", &[20], JobState::Incomplete)], "a failed");
    let failed = &new[0];
    assert_eq!((failed.end, failed.rank, failed.pid), (end(3, 0), Some(21), Some(Pid(21))));
    assert!(world.log.note_end(id(20), Ns(45), end(143, 15)));
    world.check(50, &[], "a ended");
}

#[test]
fn a_rank_that_ends_well_and_a_launcher_that_fails_are_no_failure() {
    let mut world = World { launcher_runs: true, ..World::default() };
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    assert!(world.log.note_end(id(21), Ns(35), end(0, 0)));
    assert!(world.log.note_end(id(LAUNCHER), Ns(36), end(1, 0)));
    world.check(40, &[job("a", &[20], JobState::Incomplete)], "");
}

#[test]
fn a_debugger_is_seen_while_it_traces_a_rank() {
    let mut world = World::default();
    let all = [job("a", &[20, 21], JobState::Running)];
    world.check(30, &all, "a launching, a running");
    world.tracer = Some(Pid(99));
    let new = world.check(40, &all, "a debugger-attached");
    assert_eq!((new[0].rank, new[0].pid), (Some(21), Some(Pid(99))));
    world.check(50, &all, "");
    world.tracer = None;
    world.check(60, &all, "a debugger-detached");
}

#[test]
fn a_reading_asks_of_a_bounded_number_of_processes_whether_they_are_traced() {
    let [of_job, of_user, of_all] = ASKED_FOR_TRACER;
    let number = |count: usize| u32::try_from(count).unwrap();
    let pids: Vec<u32> = (1000..1001 + number(of_job)).collect();
    // Of each user more than may be asked, and of all users.
    let of_one = |uid: u32| {
        (0..=of_user / of_job).map(move |n| (format!("{uid}-{n}"), uid)).collect::<Vec<_>>()
    };
    let users = 0..=number(of_all / of_user);
    let jobs = users.flat_map(of_one).map(|(name, uid)| {
        let mut found = job(&name, &pids, JobState::Running);
        found.job.uid = Some(uid);
        found
    });
    let jobs: Vec<FoundJob> = jobs.collect();
    let asked = Cell::new(0);
    let count = |_| {
        asked.set(asked.get() + 1);
        None
    };
    let states = ProcessStates { tracer: &count, ..ALL_RUN };
    let mut log = JobLog::default();
    let _new = log.compare(Ns(30), &jobs[..1], &states);
    // And of its launcher, which may hold it.
    assert_eq!(asked.replace(0), of_job + 1);
    let _new = log.compare(Ns(40), &jobs[..=of_user / of_job], &states);
    assert_eq!(asked.replace(0), of_user);
    let _new = log.compare(Ns(50), &jobs, &states);
    assert_eq!(asked.get(), of_all);
}

#[test]
fn a_process_of_a_rank_has_its_job() {
    let mut world = World::default();
    world.check(30, &[job("a", &[20, 21], JobState::Running)], "a launching, a running");
    let found = world.log.rank_of(id(21)).map(|(job, rank)| (&*job.id, rank));
    assert_eq!((found, world.log.rank_of(id(99))), (Some(("a", 21)), None));
}

fn launcher(pid: u32) -> FoundLauncher {
    FoundLauncher { id: id(pid), runtime: Runtime::OpenMpi4, uid: Some(7), reader: None }
}

fn changes(new: &[JobTransition]) -> String {
    let one = |it: &JobTransition| format!("{} {:?}", it.change.name(), it.end.code);
    new.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_launcher_that_ends_without_a_rank_has_failed_with_its_status() {
    let mut log = JobLog::default();
    let new = log.note_launcher(launcher(LAUNCHER), Ns(30)).unwrap();
    assert_eq!(
        (&*new.id, new.change, new.age, new.ranks),
        ("launcher-10", JobChange::Created, Ns(20), 0)
    );
    assert_eq!(log.note_launcher(launcher(LAUNCHER), Ns(31)), None);
    assert_eq!(log.processes(), [id(LAUNCHER)]);
    assert_eq!(log.compare_launchers(Ns(40), &[launcher(LAUNCHER)], &ALL_RUN), []);
    assert!(log.note_end(id(LAUNCHER), Ns(50), end(1, 0)));
    assert_eq!(log.processes(), []);
    let new = log.compare_launchers(Ns(60), &[], &ALL_RUN);
    assert_eq!(changes(&new), "failed Some(1), ended Some(1)");
    assert_eq!((new[1].at, new[1].age), (Ns(50), Ns(40)));
    assert_eq!(log.transitions().count(), 3);
}

#[test]
fn a_launcher_that_ends_with_success_or_unseen_has_not_failed() {
    let gone = ProcessStates { is_running: &|_| false, is_stopped: &|_| false, tracer: &|_| None };
    let mut log = JobLog::default();
    // Without reports of executions, a reading shows it.
    let new = log.compare_launchers(Ns(30), &[launcher(LAUNCHER), launcher(11)], &ALL_RUN);
    assert_eq!(changes(&new), "created None, created None");
    assert!(log.note_end(id(11), Ns(50), end(0, 0)));
    assert_eq!(changes(&log.compare_launchers(Ns(60), &[], &gone)), "ended None, ended Some(0)");
}

#[test]
fn a_launcher_whose_ranks_were_found_is_of_their_job() {
    let mut world = World { launcher_runs: true, ..World::default() };
    let _new = world.log.note_launcher(launcher(LAUNCHER), Ns(20));
    let jobs = [job("77", &[21, 22], JobState::Running)];
    assert_eq!(world.log.compare_launchers(Ns(30), &[], &ALL_RUN), []);
    world.check(30, &jobs, "77 launching, 77 running");
    assert_eq!(world.log.note_launcher(launcher(LAUNCHER), Ns(31)), None);
    // The ranks have ended before it.
    assert_eq!(world.log.compare_launchers(Ns(40), &[launcher(LAUNCHER)], &ALL_RUN), []);
    world.check(40, &[], "");
    world.launcher_runs = false;
    assert!(world.log.note_end(id(LAUNCHER), Ns(50), end(3, 0)));
    assert_eq!(world.log.compare_launchers(Ns(60), &[], &ALL_RUN), []);
    world.check(60, &[], "77 ended");
}

#[test]
fn a_launcher_that_runs_on_after_its_job_begins_no_other_one() {
    let mut world = World { launcher_runs: true, ..World::default() };
    world.check(30, &[job("77", &[21, 22], JobState::Running)], "77 launching, 77 running");
    world.check(40, &[], "");
    world.check(41 + LAUNCHER_GRACE.0, &[], "77 ended");
    let found = [launcher(LAUNCHER)];
    assert_eq!(world.log.compare_launchers(Ns(42 + LAUNCHER_GRACE.0), &found, &ALL_RUN), []);
}

#[test]
fn launchers_of_a_user_have_a_limit() {
    let mut log = JobLog::default();
    let (of_user, _) = super::launches::MOST;
    let most = u32::try_from(of_user).unwrap();
    let noted = (1..most + 10).filter_map(|pid| log.note_launcher(launcher(pid), Ns(100)));
    assert_eq!(noted.count(), of_user);
    assert_eq!(log.processes().len(), of_user);
}
