//! Rounds in which a job is launched and inspected, and a command is killed at a random time. The
//! job ends with its own status, the code of its ranks is unchanged, no process stays stopped or
//! traced, and none is left.
//!
//! In: a seed, and how many rounds. Out: the seed, and on failure what the round did.
//! `cargo xtask soak jobs` runs a hundred; the tests run six with one seed.

use super::random::{Random, given};
use super::round_log::RoundLog;
use crate::deadline::until;
use crate::root::harmless::changed_code;
use crate::root::privilege::able;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use procfs::process::{Process, all_processes};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Seed and number of rounds, unless `MONITOR_SOAK_SEED` and `MONITOR_SOAK_ROUNDS` are set.
const SEED: u64 = 16;
const ROUNDS: u32 = 6;
const RANKS: usize = 8;
/// The status of each rank, and so of its job.
const STATUS: i32 = 3;
/// A command is killed at most this long after its start, in milliseconds.
const KILLED_WITHIN: usize = 400;

/// The launchers, with the arguments before the number of ranks. Without one, our own host.
const LAUNCHERS: [&[&str]; 3] = [
    &[],
    &["/usr/bin/mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    &["/usr/bin/mpiexec.mpich"],
];
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
}

impl JobRounds {
    fn run_round(&mut self) {
        self.log = RoundLog::new();
        self.round += 1;
        let gate = self.folder.join(&format!("gate.{}", self.round));
        let gate = gate.to_str().unwrap().to_owned();
        let launcher = self.random.pick(&LAUNCHERS);
        if self.random.one_in(3) {
            self.killed_launch(launcher, &gate);
        } else {
            self.running_job(launcher, &gate);
        }
        // All of them have the path of the gate in their command line, until they end.
        until(|| processes(&gate).is_empty().then_some(()));
        std::fs::remove_file(gate).unwrap();
        let left: Vec<_> = std::fs::read_dir(self.folder.join("")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// A command that starts a job, whose ranks wait for a file. With a place, they are held.
    fn launch(&self, launcher: &[&str], place: Option<&str>, gate: &str) -> Command {
        let script = format!("until [ -e {gate} ]; do sleep 0.01; done; exit {STATUS}");
        let n = RANKS.to_string();
        let mut command = monitor();
        command.args(["job", "launch"]).env("TMPDIR", self.folder.join(""));
        // A daemon of Slurm may run here.
        command.env("SLURM_JOB_ID", "7").stderr(Stdio::null());
        if let Some(place) = place {
            command.args(["--stop", place]);
        }
        if launcher.is_empty() {
            command.args(["-n", &n, "--"]);
        } else {
            command.env_remove("SLURM_JOB_ID").arg("--").args(launcher).args(["-n", &n]);
        }
        command.args(["sh", "-c", &script]);
        command
    }

    /// Commands look at a running job, and some are killed.
    fn running_job(&mut self, launcher: &[&str], gate: &str) {
        self.log.add(format!("job of {launcher:?}"));
        let mut job = Guarded::run(&mut self.launch(launcher, None, gate));
        let ranks = until(|| Some(ranks(gate)).filter(|it| it.len() == RANKS));
        for _ in 0..1 + self.random.below(4) {
            let words = self.random.pick(&COMMANDS);
            let mut command = monitor();
            command.args(["job", words[0], &ranks[0].to_string()]).args(&words[1..]);
            let mut command = Guarded::run(command.stderr(Stdio::null()));
            if self.random.one_in(2) {
                let after = self.random.below(KILLED_WITHIN / 2);
                self.log.add(format!("{words:?}, killed after {after} ms"));
                ends_within(&mut command, after);
            } else {
                self.log.add(format!("{words:?}"));
                assert_eq!(command.0.wait().unwrap().code(), Some(0), "{words:?}");
            }
            until(|| ranks.iter().all(|it| runs_free(*it)).then_some(()));
        }
        for rank in &ranks {
            assert_eq!(changed_code(rank.cast_unsigned()), []);
        }
        std::fs::write(gate, "").unwrap();
        assert_eq!(job.0.wait().unwrap().code(), Some(STATUS));
    }

    /// A launch is killed: what it has started runs on, or is held and is released.
    fn killed_launch(&mut self, launcher: &[&str], gate: &str) {
        let place = self.random.pick(&[None, Some("exec"), Some("init")]);
        let after = self.random.below(KILLED_WITHIN);
        self.log.add(format!("{launcher:?} with {place:?}, killed after {after} ms"));
        let mut job = Guarded::run(&mut self.launch(launcher, place, gate));
        ends_within(&mut job, after);
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

/// Kills a command, unless it ends before.
fn ends_within(command: &mut Guarded, milliseconds: usize) {
    let time = Duration::from_millis(u64::try_from(milliseconds).unwrap());
    let begun = std::time::Instant::now();
    until(|| (begun.elapsed() >= time || command.0.try_wait().unwrap().is_some()).then_some(()));
    let _ended = command.0.kill();
    let _status = command.0.wait().unwrap();
}

/// The processes with a text in their command line.
fn processes(text: &str) -> Vec<i32> {
    let has =
        |it: &Process| it.cmdline().is_ok_and(|words| words.iter().any(|it| it.contains(text)));
    all_processes().unwrap().flatten().filter(has).map(|it| it.pid()).collect()
}

/// The shells of ranks; a child of one has its command line until it executes another program.
fn ranks(gate: &str) -> Vec<i32> {
    let is_rank = |pid: &i32| {
        let environ = Process::new(*pid).and_then(|it| it.environ()).unwrap_or_default();
        let has = |name: &str| environ.contains_key(std::ffi::OsStr::new(name));
        has("PMIX_RANK") || has("PMI_RANK")
    };
    let all: Vec<i32> = processes(gate).into_iter().filter(is_rank).collect();
    let parent = |pid: i32| Process::new(pid).and_then(|it| it.stat()).ok().map(|it| it.ppid);
    let is_first = |pid: &i32| parent(*pid).is_some_and(|it| !all.contains(&it));
    all.iter().copied().filter(is_first).collect()
}

fn state(pid: i32) -> Option<char> {
    Process::new(pid).and_then(|it| it.stat()).ok().map(|it| it.state)
}

/// Whether nothing stops or traces a process.
fn runs_free(pid: i32) -> bool {
    let status = Process::new(pid).and_then(|it| it.status()).unwrap();
    status.tracerpid == 0 && !status.state.starts_with(['T', 't'])
}

#[test]
fn root_whichever_command_is_killed_a_job_ends_with_its_own_status() {
    if !able("root_whichever_command_is_killed_a_job_ends_with_its_own_status") {
        return;
    }
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let rounds = given("MONITOR_SOAK_ROUNDS").and_then(|it| u32::try_from(it).ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    println!("seed {seed}, {rounds} rounds");
    let missing = LAUNCHERS.iter().flat_map(|it| it.first()).find(|it| !Path::new(it).exists());
    if let Some(missing) = missing {
        return crate::root::privilege::skip("soak::jobs", &format!("needs {missing}"));
    }
    let (random, log, folder) = (Random(seed), RoundLog::new(), Folder::new());
    let mut all = JobRounds { random, seed, round: 0, log, folder };
    for _ in 0..rounds {
        all.run_round();
    }
}
