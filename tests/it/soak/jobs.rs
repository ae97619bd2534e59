//! Rounds in which a job is launched and inspected, and a command, its helper, a service or our
//! host is killed at a random time. The job ends with its own status, the code of its ranks is
//! unchanged, no process stays stopped or traced, and none is left.
//!
//! In: a seed, and how many rounds. Out: the seed, and on failure what the round did.
//! `cargo xtask soak jobs` runs a hundred; the tests run eight with one seed.

use super::job_service;
use super::random::{Random, given};
use super::round_log::RoundLog;
use crate::deadline::until;
use crate::job::gate::{own_children, processes, ranks, runs_free, state};
use crate::job::runtime::{CaseRuntime, RUNTIMES, Start};
use crate::job::{Noticed, kill};
use crate::root::harmless::changed_code;
use crate::root::privilege::able;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seed and number of rounds, unless `MONITOR_SOAK_SEED` and `MONITOR_SOAK_ROUNDS` are set.
const SEED: u64 = 16;
const ROUNDS: u32 = 8;
const RANKS: usize = 8;
/// The status of each rank, and so of its job.
const STATUS: i32 = 3;
/// A command is killed at most this long after its start, in milliseconds.
const KILLED_WITHIN: usize = 400;
/// Ranks of our own host end within this time of its end.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A command on jobs whose server has tools.
const QUERY: &[&str] = &["query", "namespaces"];
/// Commands on a running job.
const COMMANDS: [&[&str]; 5] = [
    &["show", "--mpir"],
    &["show", "--for", "50ms", "--backend", "procfs"],
    &["stacks", "--threads"],
    &["attach", "--hold", "--daemon", "sleep 0.1"],
    &["attach", "--per", "node", "--daemon", "sleep 0.1"],
];

struct JobRounds {
    random: Random,
    seed: u64,
    round: u32,
    log: RoundLog,
    folder: Folder,
    /// How many jobs of each runtime there were, and were there when something was killed.
    jobs: Vec<(&'static str, u32)>,
}

impl JobRounds {
    fn run_round(&mut self, runtimes: &[&'static CaseRuntime]) {
        self.log = RoundLog::new();
        self.round += 1;
        let gate = self.folder.join(&format!("gate.{}", self.round));
        let gate = gate.to_str().unwrap().to_owned();
        let runtime = self.random.pick(runtimes);
        match self.random.below(4) {
            0 => self.killed_launch(runtime, &gate),
            1 => self.served_job(runtime, &gate),
            _ if runtime.start == Start::Native && self.random.one_in(3) => {
                self.lost_host(runtime, &gate)
            }
            _ => self.running_job(runtime, &gate),
        }
        // All of them have the path of the gate in their command line, until they end.
        until(|| processes(&gate).is_empty().then_some(()));
        std::fs::remove_file(gate).unwrap();
        let named = |it: std::fs::DirEntry| it.file_name().to_string_lossy().into_owned();
        until(|| {
            let left = std::fs::read_dir(self.folder.path()).unwrap().flatten().map(named);
            // A launcher whose parent was killed may leave its own folder.
            left.filter(|it| it.starts_with("monitor")).count().eq(&0).then_some(())
        });
        self.count(runtime.name);
    }

    fn count(&mut self, name: &'static str) {
        match self.jobs.iter_mut().find(|it| it.0 == name) {
            Some((_, n)) => *n += 1,
            None => self.jobs.push((name, 1)),
        }
    }

    /// A command that starts a job, whose ranks wait for a file. With a place, they are held.
    fn launch(&self, runtime: &CaseRuntime, place: Option<&str>, gate: &str) -> Command {
        let script = format!("until [ -e {gate} ]; do sleep 0.01; done; exit {STATUS}");
        let mut command = monitor();
        command.args(["job", "launch"]).env("TMPDIR", self.folder.join(""));
        command.stderr(Stdio::null());
        if let Some(place) = place {
            command.args(["--stop", place]);
        }
        if runtime.start == Start::Native {
            command.args(["-n", &RANKS.to_string()]);
        }
        runtime.set_environment(&mut command);
        command.arg("--").args(runtime.launcher(RANKS)).args(["sh", "-c", &script]);
        command
    }

    /// Runs a job until its ranks are there.
    fn begin(&mut self, runtime: &CaseRuntime, gate: &str) -> (Guarded, Vec<i32>) {
        self.log.add(format!("job of {}", runtime.name));
        let job = Guarded::run(&mut self.launch(runtime, None, gate));
        let ranks = until(|| Some(ranks(gate)).filter(|it| it.len() == RANKS));
        (job, ranks)
    }

    /// Its ranks are as they were, and it ends with its own status.
    fn end(&mut self, mut job: Guarded, ranks: &[i32], gate: &str) {
        for rank in ranks {
            assert_eq!(changed_code(rank.cast_unsigned()), []);
        }
        std::fs::write(gate, "").unwrap();
        let status = until(|| job.0.try_wait().unwrap());
        assert_eq!(status.code(), Some(STATUS));
    }

    /// Commands look at a running job, and some are killed.
    fn running_job(&mut self, runtime: &CaseRuntime, gate: &str) {
        let (job, ranks) = self.begin(runtime, gate);
        for _ in 0..1 + self.random.below(4) {
            let has_tools = ["prrte", "native"].contains(&runtime.runtime);
            let words = match has_tools && self.random.one_in(3) {
                true => QUERY,
                false => self.random.pick(&COMMANDS),
            };
            let mut command = monitor();
            command.args(["job", words[0], &ranks[0].to_string()]).args(&words[1..]);
            // For a host of our own.
            command.env("TMPDIR", self.folder.join(""));
            runtime.set_environment(&mut command);
            let mut command = Guarded::run(command.stderr(Stdio::null()));
            let after = self.random.below(KILLED_WITHIN / 2);
            match self.random.below(4) {
                0 | 1 => {
                    self.log.add(format!("{words:?}, killed after {after} ms"));
                    ends_within(&mut command, after);
                }
                // `mpirun` itself does not survive a tool that ends while it connects.
                2 if words != QUERY => {
                    self.log.add(format!("{words:?}, its helper killed after {after} ms"));
                    self.lost_helper(&mut command, after, &ranks);
                }
                _ => {
                    self.log.add(format!("{words:?}"));
                    assert_eq!(command.0.wait().unwrap().code(), Some(0), "{words:?}");
                }
            }
            until(|| ranks.iter().all(|it| runs_free(*it)).then_some(()));
        }
        self.end(job, &ranks, gate);
    }

    /// The child of a command is killed, which ends daemons and continues ranks; without it, held
    /// ranks wait for a release.
    fn lost_helper(&mut self, command: &mut Guarded, after: usize, ranks: &[i32]) {
        let _ended = ended_within(command, after);
        for helper in own_children(command.pid().0.cast_signed()) {
            kill(Pid(helper.cast_unsigned()));
        }
        let status = until(|| command.0.try_wait().unwrap());
        self.log.add(format!("it ended: {status}"));
        let words = ["job", "release", &ranks[0].to_string()];
        let released = monitor().args(words).output().unwrap();
        self.log.add(String::from_utf8_lossy(&released.stdout).into_owned());
    }

    /// A tool of a service acts on a running job, and a part is killed.
    fn served_job(&mut self, runtime: &CaseRuntime, gate: &str) {
        let (job, ranks) = self.begin(runtime, gate);
        for _ in 0..1 + self.random.below(2) {
            job_service::run(&mut self.random, &mut self.log, &ranks);
        }
        self.end(job, &ranks, gate);
    }

    /// Our host is killed: its ranks end, and the command says so.
    fn lost_host(&mut self, runtime: &CaseRuntime, gate: &str) {
        self.log.add(format!("job of {}, whose host is killed", runtime.name));
        let mut job = Noticed::run(&mut self.launch(runtime, None, gate));
        let ranks = until(|| Some(ranks(gate)).filter(|it| it.len() == RANKS));
        let host = own_children(job.command.pid().0.cast_signed());
        assert_eq!(host.len(), 1);
        kill(Pid(host[0].cast_unsigned()));
        let begun = Instant::now();
        let is_over = |pid: &i32| state(*pid).is_none_or(|it| it == 'Z');
        until(|| ranks.iter().all(is_over).then_some(()));
        let took = begun.elapsed();
        assert!(took < ENDS_WITHIN, "{took:?}");
        let notice = job.notice();
        assert!(notice.starts_with("monitor: host lost: "), "{notice}");
        assert_eq!(job.end().1, Some(137));
        std::fs::write(gate, "").unwrap();
    }

    /// A launch, or the child that traces for it, is killed: what it has started runs on, or is
    /// held and is released.
    fn killed_launch(&mut self, runtime: &CaseRuntime, gate: &str) {
        let place = self.random.pick(&[None, Some("exec"), Some("init")]);
        let after = self.random.below(KILLED_WITHIN);
        // A rank at a breakpoint ends with the child that traces it.
        let helper = place == Some("exec") && self.random.one_in(2);
        let what = if helper { "its helper" } else { "it" };
        self.log.add(format!("{} with {place:?}, {what} killed after {after} ms", runtime.name));
        let mut job = Guarded::run(&mut self.launch(runtime, place, gate));
        if helper {
            let _ended = ended_within(&mut job, after);
            let children = own_children(job.pid().0.cast_signed());
            children.iter().for_each(|it| kill(Pid(it.cast_unsigned())));
        } else {
            ends_within(&mut job, after);
        }
        std::fs::write(gate, "").unwrap();
        until(|| {
            let all = processes(gate);
            let stopped = all.iter().filter(|it| state(**it) == Some('T'));
            for pid in stopped {
                let pid = rustix::process::Pid::from_raw(*pid).unwrap();
                // What was held waits for `job release`, which is a SIGCONT.
                let _ended = rustix::process::kill_process(pid, rustix::process::Signal::CONT);
            }
            all.is_empty().then_some(())
        });
    }
}

impl Drop for JobRounds {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("soak: failed with seed {} in round {}", self.seed, self.round);
            self.log.print();
        }
    }
}

/// Waits for this time, or until a command ends; whether it has ended.
fn ended_within(command: &mut Guarded, milliseconds: usize) -> bool {
    let time = Duration::from_millis(u64::try_from(milliseconds).unwrap());
    let begun = Instant::now();
    until(|| match command.0.try_wait().unwrap() {
        Some(_) => Some(true),
        None => (begun.elapsed() >= time).then_some(false),
    })
}

/// Kills a command, unless it ends before.
fn ends_within(command: &mut Guarded, milliseconds: usize) {
    if !ended_within(command, milliseconds) {
        let _ended = command.0.kill();
        let _status = command.0.wait().unwrap();
    }
}

#[test]
fn root_whichever_command_is_killed_a_job_ends_with_its_own_status() {
    const TEST: &str = "root_whichever_command_is_killed_a_job_ends_with_its_own_status";
    if !able(TEST) {
        return;
    }
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let rounds = given("MONITOR_SOAK_ROUNDS").and_then(|it| u32::try_from(it).ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    println!("seed {seed}, {rounds} rounds");
    // Those of Slurm are in `job_attached.rs`.
    let launched = RUNTIMES.iter().filter(|it| it.start != Start::Slurm);
    let runtimes: Vec<&'static CaseRuntime> =
        launched.filter(|it| it.built(TEST).is_some()).collect();
    let (random, log, folder) = (Random(seed), RoundLog::new(), Folder::new());
    let jobs = Vec::new();
    let mut all = JobRounds { random, seed, round: 0, log, folder, jobs };
    let begun = Instant::now();
    for _ in 0..rounds {
        all.run_round(&runtimes);
    }
    println!("soak: {rounds} rounds, {:.0?}: {:?}", begun.elapsed(), all.jobs);
}
