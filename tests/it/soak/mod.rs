//! Rounds of a random workload, random tools and random kills: after each, no program is stopped,
//! traced or changed, and nothing is left.
//!
//! In: a seed, and how long. Out: the seed, and on failure what the round did.
//! `cargo xtask soak` runs it for half an hour; the tests run twenty rounds with one seed.

mod files;
#[cfg(feature = "tls")]
mod files_silent;
#[cfg(feature = "tls")]
mod files_tree;
mod job_attached;
mod job_service;
mod jobs;
mod leftover;
pub mod random;
mod requests;
mod round_log;
mod tools;
mod workload;

use crate::control::killed::{kill_all, workers};
use crate::control::target::signal;
use crate::deadline::until;
use crate::root::harmless::{changed_code, counted};
use crate::root::privilege::{USER, able};
use crate::root::workload::Guarded;
use crate::served::{Folder, Served};
use leftover::{KernelObjects, described, files, processes, until_none};
use random::{Random, given};
use round_log::RoundLog;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tools::Tool;
use workload::Workload;

/// Seed and number of rounds, unless `MONITOR_SOAK_SEED` and `MONITOR_SOAK_SECONDS` are set.
const SEED: u64 = 23;
const ROUNDS: u32 = 20;
/// After this number of rounds, the service must get back to as few descriptors as at its start.
/// That takes seconds: it detaches a capability only when none has needed it for a while.
const SETTLES_EVERY: u32 = 50;

/// What is killed in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Service,
    Worker,
    Tool,
    Unit,
}

/// The kills, each as likely as the others.
const KILLS: &[&[Part]] = &[
    &[],
    &[Part::Service],
    &[Part::Worker],
    &[Part::Tool],
    &[Part::Unit],
    &[Part::Unit, Part::Tool],
    &[Part::Service, Part::Worker],
    &[Part::Worker, Part::Service],
    &[Part::Service, Part::Tool],
    &[Part::Tool, Part::Worker],
    &[Part::Worker, Part::Worker],
    &[Part::Tool, Part::Tool],
];

struct Soak {
    random: Random,
    seed: u64,
    round: u32,
    log: RoundLog,
    workload: Workload,
    tools: Vec<Tool>,
    service: Served,
    folder: Folder,
    /// Files and descriptors of a service without tools.
    files: BTreeSet<String>,
    descriptors: usize,
    /// Objects of processes that were killed.
    objects: Vec<KernelObjects>,
}

impl Soak {
    fn new(seed: u64) -> Self {
        let folder = Folder::new();
        // Its processes are found by this name.
        let program = folder.join("monitor");
        let built = env!("CARGO_BIN_EXE_monitor");
        std::fs::hard_link(built, &program)
            .or_else(|_| std::fs::copy(built, &program).map(|_| ()))
            .unwrap();
        // A user is charged for the programs that its first request loads into the kernel, and
        // would wait ten times as long before the next request.
        let share = "[limits]\nprocessor = \"100%\"";
        let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n{share}\n");
        let mut command = Command::new(&program);
        command.stdin(Stdio::null());
        let service = Served::started(&config, command, "ebpf");
        let workload = Workload::new(&folder);
        let mut it = Self {
            random: Random(seed),
            seed,
            round: 0,
            log: RoundLog::new(),
            workload,
            tools: Vec::new(),
            service,
            folder,
            files: BTreeSet::new(),
            descriptors: 0,
            objects: Vec::new(),
        };
        it.files = it.files_now();
        it.descriptors = it.service.descriptors();
        it
    }

    /// The files beside the socket; those of what is to be undone come and go with user workers.
    fn files_now(&self) -> BTreeSet<String> {
        let mut all = files(self.service.socket().parent().unwrap());
        all.retain(|path| !path.contains(".undo"));
        all
    }

    fn run_round(&mut self) {
        self.log = RoundLog::new();
        self.round += 1;
        if self.random.one_in(4) {
            let mode = self.random.pick(&["slow", "breed", "urge", "spin", "jit", "wait"]);
            let uid = self.random.pick(&[0, USER]);
            self.workload.replace(mode, uid);
            self.log.add(format!("new program {mode} of {uid}"));
        }
        let (uid, calls) = (self.random.pick(&[0, USER]), 1 + self.random.below(300) as u64);
        let caller = self.workload.begin_giving(uid, calls).pid;
        self.workload.set_landed(false);
        self.log.add(format!("{caller} of {uid} is to call {calls} times in each thread"));
        let counting = self.random.one_in(3).then(|| self.count_calls(caller));
        let give_at = self.random.below(3);
        if give_at == 0 {
            self.workload.give();
        }
        for _ in 0..1 + self.random.below(4) {
            let (tool, said) = Tool::start(&mut self.random, &self.service, &self.workload);
            self.log.add(said);
            self.tools.push(tool);
        }
        if give_at == 1 {
            self.workload.give();
        }
        self.workload.check_bystander();
        self.wait();
        self.kill();
        if give_at == 2 {
            self.workload.give();
        }
        self.check(counting);
    }

    /// Starts a command that counts the calls of this process.
    fn count_calls(&mut self, pid: u32) -> Guarded {
        self.log.add(format!("when call give of {pid}"));
        let mut command = Command::new(self.folder.join("monitor"));
        command.args(["when", "call give", "count", "--pid", &pid.to_string()]);
        let mut it = Guarded::run(command.stderr(Stdio::piped()));
        let mut lines = BufReader::new(it.0.stderr.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("watching")), "it ended");
        it
    }

    /// Lets the service answer a few requests.
    fn wait(&mut self) {
        let n_requests = self.random.below(100);
        self.log.add(format!("{n_requests} requests later"));
        let mut session = self.service.connect();
        for _ in 0..n_requests {
            assert!(session.request("1 [] print(1)").starts_with("1 [0] print(0"));
        }
    }

    fn kill(&mut self) {
        let parts = self.random.pick(KILLS);
        for part in parts {
            let pid = match part {
                Part::Unit | Part::Service => Some(self.service.pid()),
                Part::Worker => {
                    let workers = workers(self.service.pid());
                    (!workers.is_empty()).then(|| self.random.pick(&workers))
                }
                Part::Tool => {
                    let tools: Vec<u32> = self.tools.iter().filter_map(Tool::pid).collect();
                    (!tools.is_empty()).then(|| self.random.pick(&tools))
                }
            };
            let Some(pid) = pid else { continue };
            self.log.add(format!("kill {part:?} {pid}"));
            let kill = |signal| kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
            // A tool may have ended by itself.
            let _stopped = kill(Signal::STOP);
            self.objects.push(KernelObjects::from_process(pid));
            match part {
                Part::Unit => kill_all(&mut self.service),
                Part::Service => self.service.kill(),
                Part::Worker | Part::Tool => _ = kill(Signal::KILL),
            }
        }
        if parts.contains(&Part::Unit) || parts.contains(&Part::Service) {
            self.service.restart();
            self.log.add(format!("service {}", self.service.pid()));
        }
    }

    /// Ends all tools and fails if anything is left of them or of what was killed.
    fn check(&mut self, counting: Option<Guarded>) {
        for tool in std::mem::take(&mut self.tools) {
            if let Some(pid) = tool.pid() {
                self.objects.push(KernelObjects::from_process(pid));
            }
            let pid = tool.pid().unwrap_or(0);
            let way = tool.end(&mut self.random);
            self.log.add(format!("{pid} {way}"));
        }
        self.log.add("tools have ended".to_owned());
        self.workload.set_landed(true);
        let calls = self.workload.wait_until_given();
        if let Some(mut counting) = counting {
            self.objects.push(KernelObjects::from_process(counting.pid().0));
            signal(counting.pid().0, "INT");
            let mut table = String::new();
            let _bytes = counting.0.stdout.as_mut().unwrap().read_to_string(&mut table).unwrap();
            assert_eq!(counted(&table, "call give"), calls, "{table}");
            let _status = counting.0.wait().unwrap();
        }
        self.log.add("its calls are done".to_owned());
        self.check_processes();
        self.log.add("no process is left".to_owned());
        self.workload.check();
        self.log.add("all programs run".to_owned());
        for objects in std::mem::take(&mut self.objects) {
            self.log.add(format!("{} objects in the kernel", objects.len()));
            objects.are_gone();
        }
        until_none("files", || &self.files_now() ^ &self.files);
        if self.round.is_multiple_of(SETTLES_EVERY) {
            self.log.add("files are as before".to_owned());
            until(|| (self.service.descriptors() <= self.descriptors).then_some(()));
        }
    }

    /// Waits until there is no process but the service, its user workers and the workload. What
    /// the service has started for a tool must run, and is ended.
    fn check_processes(&mut self) {
        let own: Vec<u32> = self.workload.pids();
        let program = self.folder.join("monitor");
        let mut ended = BTreeSet::new();
        until_none("processes", || {
            let service = self.service.pid();
            let mut left = processes(self.folder.path());
            left.retain(|pid| *pid != service && !own.contains(pid));
            let workers = workers(service);
            left.retain(|pid| !workers.contains(pid));
            for pid in left.clone() {
                let is_program =
                    || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it != program);
                // Children of programs of the workload come and go.
                let is_child = || own.contains(&stat(pid, 1).parse().unwrap_or(0));
                // It sleeps once it has loaded its libraries.
                let runs = || stat(pid, 0) == "S";
                if is_program() && is_child() {
                    let _child = left.remove(&pid);
                } else if is_program() && runs() && !ended.contains(&pid) {
                    assert_eq!(changed_code(pid), [], "the code of a started program");
                    let _new = ended.insert(pid);
                    signal(pid, "KILL");
                }
            }
            described(&left)
        });
    }

    /// Ends the service as an administrator does.
    fn end(mut self) {
        self.log = RoundLog::new();
        self.log.add("the end".to_owned());
        let objects = KernelObjects::from_process(self.service.pid());
        assert!(objects.len() > 0, "the service has its programs in the kernel");
        self.service.signal(Signal::TERM);
        self.service.ends();
        objects.are_gone();
        let service = self.service.pid();
        self.workload.check();
        let own = self.workload.pids();
        until_none("processes", || {
            let mut left = processes(self.folder.path());
            left.retain(|pid| *pid != service && !own.contains(pid));
            described(&left)
        });
        until_none("files", || files(self.service.socket().parent().unwrap()));
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("soak: failed with seed {} in round {}", self.seed, self.round);
            self.log.print();
            println!("the log of the service:\n{}", self.service.log());
        }
    }
}

/// A word after the name in `stat` of a process, the first being its state; empty if it has ended.
fn stat(pid: u32, word: usize) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').nth(word).unwrap_or_default().to_owned()
}

#[test]
fn root_whatever_is_killed_no_program_is_harmed_and_nothing_is_left() {
    if !able("root_whatever_is_killed_no_program_is_harmed_and_nothing_is_left") {
        return;
    }
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let time = given("MONITOR_SOAK_SECONDS").map(Duration::from_secs);
    println!("soak: seed {seed}");
    let begin = Instant::now();
    let mut soak = Soak::new(seed);
    while time.map_or(soak.round < ROUNDS, |time| begin.elapsed() < time) {
        soak.run_round();
        if soak.round.is_multiple_of(100) {
            println!("soak: {} rounds, {:.0?}", soak.round, begin.elapsed());
        }
    }
    println!("soak: {} rounds, {:.0?}, nothing harmed, nothing left", soak.round, begin.elapsed());
    soak.end();
}
