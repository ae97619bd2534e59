//! The programs that tools act on, and what must hold for them after each round.

use super::leftover::{SLOW, threads, until_none};
use crate::control::group::Group;
use crate::control::target::{Target, program};
use crate::deadline::until;
use crate::root::harmless::changed_code;
use crate::root::privilege::USER;
use crate::served::Folder;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A user whose programs no tool acts on.
const BYSTANDER: u32 = 61_235;
/// Threads of the program with a known sum.
const CALLERS: u64 = 2;
/// Where that program adds up what its threads get back.
const SUMS: u64 = 32;

/// A program of one of the users.
pub struct Watched {
    pub target: Target,
    pub pid: u32,
    pub uid: u32,
    /// Whether its first counter rises without end.
    counts: bool,
    count: u64,
}

impl Watched {
    fn new(target: Target, uid: u32, counts: bool) -> Self {
        Self { pid: target.id().pid.0, target, uid, counts, count: 0 }
    }

    /// Fails if it is stopped, traced or changed, and waits until it has gone on.
    #[track_caller]
    fn check(&mut self) {
        assert_eq!(self.target.ended(), None, "{} ended", self.pid);
        until_none("holds", || self.held().into_iter().collect());
        let begin = Instant::now();
        let count = self.target.count(0);
        assert!(count >= self.count, "a counter of {} fell", self.pid);
        if self.counts {
            self.target.until_counts(0);
        }
        self.count = self.target.count(0);
        if begin.elapsed() > SLOW {
            println!("soak: {} has gone on after {:.1?}", self.pid, begin.elapsed());
        }
    }

    /// What holds it, if anything does.
    fn held(&self) -> Option<String> {
        let states = self.target.states();
        let is_traced = self.target.is_traced();
        let changed = changed_code(self.pid);
        let is_free = !states.contains(['T', 't']) && !is_traced && changed.is_empty();
        let pid = self.pid;
        (!is_free).then(|| format!("{pid}: {states}, traced {is_traced}, changed {changed:x?}"))
    }
}

/// All programs of the soak.
pub struct Workload {
    program: PathBuf,
    /// Those that stay.
    pub watched: Vec<Watched>,
    bystander: Target,
    /// That of the round, with its number of calls in each thread.
    caller: Option<(Watched, u64)>,
    group: Option<Group>,
}

impl Workload {
    /// The programs that stay; their file is in a folder where all users may run it.
    pub fn new(folder: &Folder) -> Self {
        let copy = folder.join("target");
        let _bytes = std::fs::copy(program(), &copy).unwrap();
        let bystander = run(&copy, BYSTANDER, &["slow", "2"]);
        let mut it =
            Self { program: copy, watched: Vec::new(), bystander, caller: None, group: None };
        for (mode, uid) in [("slow", 0), ("wait", 0), ("slow", USER), ("breed", USER)] {
            it.add(mode, uid);
        }
        it.group = Group::new("monitor-soak");
        if let Some(group) = &it.group {
            let pid = it.watched[0].pid.to_string();
            std::fs::write(group.0.join("cgroup.procs"), pid).unwrap();
        }
        it
    }

    /// The file of the programs.
    pub fn program(&self) -> &str {
        self.program.to_str().unwrap()
    }

    /// The folder of the file.
    pub fn folder(&self) -> &Path {
        self.program.parent().unwrap()
    }

    /// All processes, without their children.
    pub fn pids(&self) -> Vec<u32> {
        let all = self.all().into_iter().map(|it| it.pid);
        all.chain([self.bystander.id().pid.0]).collect()
    }

    /// Adds a program that stays.
    pub fn add(&mut self, mode: &str, uid: u32) {
        let target = run(&self.program, uid, &[mode, "2"]);
        let counts = !matches!(mode, "wait" | "dive");
        self.watched.push(Watched::new(target, uid, counts));
    }

    /// Replaces the last program by another one.
    pub fn replace(&mut self, mode: &str, uid: u32) {
        let mut last = self.watched.pop().unwrap();
        let _status = last.target.end();
        self.add(mode, uid);
    }

    /// Starts a program whose threads call `give` this number of times, once it gets `SIGUSR2`.
    pub fn begin_giving(&mut self, uid: u32, calls: u64) -> &Watched {
        let (threads, number) = (CALLERS.to_string(), calls.to_string());
        let target = run(&self.program, uid, &["give", &threads, &number]);
        let caller = Watched::new(target, uid, false);
        &self.caller.insert((caller, calls)).0
    }

    /// Lets it call.
    pub fn give(&self) {
        self.caller.as_ref().unwrap().0.target.signal("USR2");
    }

    /// Whether the procedure `later` returns, which tools may have called in any of them.
    pub fn set_landed(&self, is_landed: bool) {
        let put = |it: &Watched| it.target.put(it.target.at("landed"), is_landed.into());
        self.all().into_iter().for_each(put);
    }

    /// Every program that tools may act on.
    pub fn all(&self) -> Vec<&Watched> {
        self.watched.iter().chain(self.caller.as_ref().map(|(caller, _)| caller)).collect()
    }

    /// Fails if the code of a program is changed that no tool acts on.
    #[track_caller]
    pub fn check_bystander(&self) {
        assert_eq!(changed_code(self.bystander.id().pid.0), [], "the code of a bystander");
        assert!(!self.bystander.is_traced() && !self.bystander.states().contains(['T', 't']));
    }

    /// Waits until the program of the round has made its calls; returns their number.
    #[track_caller]
    pub fn wait_until_given(&self) -> u64 {
        let (caller, calls) = self.caller.as_ref().unwrap();
        let number = |index| caller.target.number(caller.target.at("counters") + 8 * index);
        for thread in 0..CALLERS {
            until_none("threads that have not made their calls", || {
                let threads = (number(thread) != *calls).then(|| threads(caller.pid));
                threads.unwrap_or_default()
            });
            assert_eq!(number(SUMS + thread), calls * (calls - 1), "the sum of its results");
        }
        CALLERS * calls
    }

    /// Waits until all run freely, and ends the program of the round.
    #[track_caller]
    pub fn check(&mut self) {
        for watched in self.watched.iter_mut().chain(self.caller.as_mut().map(|(it, _)| it)) {
            watched.check();
        }
        self.caller = None;
        self.check_bystander();
        self.bystander.until_counts(1);
        if let Some(group) = &self.group {
            let events = std::fs::read_to_string(group.0.join("cgroup.events")).unwrap();
            assert!(events.contains("frozen 0"), "{events}");
        }
    }
}

fn run(program: &PathBuf, uid: u32, words: &[&str]) -> Target {
    let threads: usize = words[1].parse().unwrap();
    // One that never sleeps leaves the processors to what is tested.
    let nice = if words[0] == "spin" { "10" } else { "0" };
    let mut command = Command::new("nice");
    command.args(["-n", nice]).arg(program).args(words);
    let target = Target::run(command.uid(uid).gid(uid));
    until(|| (target.tids().len() == threads).then_some(()));
    target
}
