//! Rounds in which a tool of a service holds the ranks of a job, copies their stacks and starts
//! daemons beside them, and a part is killed: the job runs on, no daemon is left.
//!
//! In: a job, random numbers. Out: nothing; what a round did is in its log.

use super::random::Random;
use super::round_log::RoundLog;
use crate::control::killed::{kill_all, workers};
use crate::deadline::until;
use crate::job::gate::{processes, runs_free};
use crate::job::kill;
use crate::served::Served;
use monitor_model::id::Pid;

/// What a tool requests; `JOB` is a process of the job, `MARK` a word that only daemons have.
const REQUESTS: [&str; 4] = [
    "job_hold(\"JOB\")",
    "job_stacks(\"JOB\",\"all\")",
    "job_attach(\"JOB\",\"exec sleep 1000.MARK\",\"process\")",
    "job_attach(\"JOB\",\"exec sleep 1000.MARK\",\"node\")",
];

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Part {
    Tool,
    Worker,
    Service,
    Unit,
}

/// A tool on a job whose ranks are these processes, and a kill after some of its requests.
pub fn run(random: &mut Random, log: &mut RoundLog, ranks: &[i32]) {
    let mut served = Served::start("procfs");
    let mut session = served.connect();
    let mark = std::process::id().to_string();
    let n_requests = 1 + random.below(4);
    let answered = random.below(n_requests + 1);
    let part = random.pick(&[Part::Tool, Part::Worker, Part::Service, Part::Unit]);
    log.add(format!("service: {n_requests} requests, {part:?} killed after {answered}"));
    for number in 1..=n_requests {
        let request = random.pick(&REQUESTS);
        let request = request.replace("JOB", &ranks[0].to_string()).replace("MARK", &mark);
        log.add(request.clone());
        session.send(format!("{number} [0] {request}\n").as_bytes()).unwrap();
        if number <= answered {
            log.add(session.line().unwrap_or_default());
        }
    }
    match part {
        Part::Tool => drop(session),
        Part::Worker => workers(served.pid()).into_iter().for_each(|pid| kill(Pid(pid))),
        Part::Service => served.kill(),
        Part::Unit => kill_all(&mut served),
    }
    if matches!(part, Part::Service | Part::Unit) {
        // What both had stopped, the next service continues.
        served.restart();
    }
    log.add("killed".to_owned());
    until(|| ranks.iter().all(|it| runs_free(*it)).then_some(()));
    log.add("the ranks run".to_owned());
    let daemon = format!("1000.{mark}");
    until(|| processes(&daemon).is_empty().then_some(()));
}
