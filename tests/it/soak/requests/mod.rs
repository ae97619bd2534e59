//! Rounds in which a program ends at an event: by an action, by itself, killed from elsewhere. Its
//! parent can wait for it, each end is reported once with its status, and no process stays stopped.
//!
//! In: a seed, and how many rounds. Out: the seed, and on failure what the round did.
//! `cargo xtask soak requests` runs a thousand; the tests run fifty with one seed.

mod plan;
mod program;
mod session;

use super::random::{Random, given};
use super::round_log::RoundLog;
use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Folder, Served};
use plan::{Cause, EventSite, Level, Plan, ToolEnd};
use program::{PrintLeft, Program, Programs, left};
use rustix::process::{Pid, Signal, kill_process};
use session::Lines;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Seed and number of rounds, unless `MONITOR_SOAK_SEED` and `MONITOR_SOAK_ROUNDS` are set.
const SEED: u64 = 15;
const ROUNDS: u32 = 50;
/// What takes longer than this from the end to the parent's wait is printed. `mpirun` of Open MPI
/// takes a second after the end of a rank.
const SLOW: Duration = Duration::from_millis(1500);

/// Numbers of requests: the event of the round, its actions, and the ends.
const EVENT: u64 = 10;
const ACTION: u64 = 20;
const END: u64 = 30;
const END_ACTION: u64 = 31;

struct Rounds {
    random: Random,
    seed: u64,
    round: u32,
    log: RoundLog,
    programs: Programs,
    service: Served,
    /// Reports the end of every process.
    observer: Lines,
    /// The ends that were reported of the processes of this round.
    ends: BTreeMap<u32, Vec<i32>>,
    slowest: Duration,
    _folder: Folder,
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let folder = Folder::new();
        let config =
            format!("[policy]\ncontrol-own = [\"{USER}\"]\n[limits]\nprocessor = \"100%\"\n");
        let service = Served::started(&config, crate::served::monitor(), "ebpf");
        let mut observer = Lines::new(service.connect());
        let actions = format!("{END_ACTION} [] print($1,$2)");
        observer.store(END, "process_terminated([])", &actions);
        Self {
            random: Random(seed),
            seed,
            round: 0,
            log: RoundLog::new(),
            programs: Programs::build(&folder),
            service,
            observer,
            ends: BTreeMap::new(),
            slowest: Duration::ZERO,
            _folder: folder,
        }
    }

    fn run_round(&mut self) {
        self.log = RoundLog::new();
        self.round += 1;
        let plan = Plan::pick(&mut self.random);
        self.log.add(format!("round {}: {plan:?}", self.round));
        let uid = if plan.of_user { USER } else { 0 };
        let Some(mut program) = self.programs.start(plan.shape, plan.how(), uid) else { return };
        self.log.add(format!("processes {:?}", program.pids));
        self.ends.clear();
        self.observer.succeeds(&format!("attach({:?})", program.pids));
        let other = (plan.level == Level::Stopped).then(|| self.trace_as_root(&program));
        let mut slow = (plan.level == Level::Long).then(|| Slow::new(&self.service, self.round));
        let mut tool = self.tool(&plan, &program);
        program.begin();
        self.log.add("it begins".to_owned());
        self.end(&plan, (&program, &mut tool), slow.as_mut());
        let ended = Instant::now();
        match plan.tool_end {
            ToolEnd::Stays => {}
            ToolEnd::Disconnects => tool = Lines::new(self.service.connect()),
            ToolEnd::Deletes => tool.send(&format!("delete({EVENT})")),
        }
        // A thread that must continue to end is released, each time it is held.
        let statuses = program.wait(|| {
            let answers = slow.iter_mut().filter(|_| plan.must_continue());
            answers.for_each(Slow::answer_all);
        });
        self.log.add(format!("its parents have waited: {statuses:?}"));
        let late = ended.elapsed();
        if late > SLOW {
            println!(
                "soak: round {} took {late:.1?} from the end to the wait: {plan:?}",
                self.round
            );
        }
        self.slowest = self.slowest.max(late);
        self.check(&plan, &program, &statuses);
        drop((slow, other, tool));
    }

    /// Another user worker traces the processes of a user.
    fn trace_as_root(&mut self, program: &Program) -> Lines {
        let mut other = Lines::new(self.service.connect());
        let targets = program.targets();
        other.succeeds(&format!("attach({targets:?})"));
        let event = format!("breakpoint({targets:?},{})", program.at("landing"));
        other.store(EVENT, &event, &format!("{ACTION} [] print($1)"));
        other
    }

    /// The tool of the round, with its event.
    fn tool(&mut self, plan: &Plan, program: &Program) -> Lines {
        let connect = || Lines::new(self.service.connect());
        let mut tool = if plan.by_user { as_user(&[], connect) } else { connect() };
        let (targets, first) = (program.targets(), program.pids[0]);
        tool.succeeds(&format!("attach({targets:?})"));
        let at = |name| program.at(name);
        let event = match plan.place {
            EventSite::Call => format!("start_lib_call({targets:?},\"{}\")", program.function()),
            EventSite::Return => format!("end_lib_call({targets:?},\"{}\")", program.function()),
            EventSite::Signal => format!("process_signal({targets:?},[10])"),
            EventSite::Breakpoint => format!("breakpoint({targets:?},{})", at("meet")),
            EventSite::Step => format!("step({first})"),
            EventSite::Next => format!("next({first})"),
            EventSite::Finish => format!("finish({first})"),
            EventSite::Procedure => format!("call_procedure({first},{},1)", at("meet")),
            EventSite::Start => "new_process()".to_owned(),
            EventSite::End => "process_terminated([])".to_owned(),
        };
        let level = match plan.level {
            Level::Kernel => String::new(),
            Level::Copy => format!("{ACTION} [] print($1)"),
            Level::Held => format!("{ACTION} [] stack_backtrace($1)"),
            // The other user worker has the registers.
            Level::Stopped => format!("{ACTION} [] read_memory($1,{},8)", at("counters")),
            Level::Long => {
                format!("{ACTION} [] stack_backtrace($1); 21 [] {}", Slow::service(self.round))
            }
        };
        let cause = match plan.cause {
            Cause::Action(signal) => format!("22 [] kill([$1],{signal})"),
            Cause::Goto => format!("22 [] goto($1,{})", at("crash")),
            _ if level.is_empty() => {
                tool.succeeds("cnt_create(\"n\",\"counter\",\"\")");
                "22 [] cnt_add(\"n\",1)".to_owned()
            }
            _ => String::new(),
        };
        let both = [level, cause].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
        let actions = both.join("; ");
        self.log.add(format!("> {event}: {actions}"));
        tool.store(EVENT, &event, &actions);
        if plan.level == Level::Long
            && matches!(plan.place, EventSite::Call | EventSite::Return | EventSite::Signal)
        {
            // Before, the whole process would be stopped, and no thread beside could end it.
            until(|| {
                let levels = tool.request(&format!("request_level({EVENT})"));
                levels.contains("\"held\"").then_some(())
            });
        }
        tool
    }

    /// Waits for the event, and causes the end if the action does not.
    fn end(
        &mut self,
        plan: &Plan,
        (program, tool): (&Program, &mut Lines),
        slow: Option<&mut Slow>,
    ) {
        match (slow, plan.level) {
            (Some(slow), _) => {
                let call = slow.called();
                self.log.add(format!("held, call {call}"));
                if plan.must_continue() {
                    slow.answer(&call);
                }
                if plan.by_action() {
                    let line = tool.event();
                    self.log.add(format!("< {line}"));
                }
            }
            (None, Level::Kernel) => {}
            (None, _) => {
                let line = tool.event();
                self.log.add(format!("< {line}"));
            }
        }
        match plan.cause {
            Cause::Action(_) | Cause::Goto => {
                if plan.level == Level::Kernel {
                    return;
                }
            }
            Cause::Killed => {
                for pid in program.targets().iter() {
                    // It may have ended together with the first.
                    let _ended =
                        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
                }
            }
            _ => program.end_now(),
        }
        self.log.add("its end is caused".to_owned());
    }

    /// Waits until every end was reported, and fails if one was reported twice or with another
    /// status, or if anything is left.
    fn check(&mut self, plan: &Plan, program: &Program, statuses: &BTreeMap<u32, Option<i32>>) {
        for pid in program.targets() {
            if let Some(Some(code)) = statuses.get(pid) {
                assert_eq!(*code, plan.code(), "the status of {pid}");
            }
        }
        until(|| {
            let lines = self.observer.events();
            lines.iter().for_each(|line| self.add_end(line));
            statuses.keys().all(|pid| self.ends.contains_key(pid)).then_some(())
        });
        self.log.add(format!("ends reported: {:?}", self.ends));
        for (pid, status) in statuses {
            let reported = &self.ends[pid];
            assert_eq!(reported.len(), 1, "the end of {pid} was reported {reported:?}");
            assert!(status.is_none_or(|it| it == reported[0]), "{pid}: {status:?}, {reported:?}");
        }
        let _left = PrintLeft;
        until(|| left().is_empty().then_some(()));
    }

    fn add_end(&mut self, line: &str) {
        let list = line.split_once("print(0,[").and_then(|(_, rest)| rest.split_once("])"));
        let numbers = list.and_then(|(list, _)| list.split_once(','));
        let (pid, code) = numbers.unwrap_or_else(|| panic!("{line}"));
        self.ends.entry(pid.parse().unwrap()).or_default().push(code.parse().unwrap());
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("soak: failed with seed {} in round {}", self.seed, self.round);
            self.log.print();
            println!("  ends reported: {:?}", self.ends);
            println!("the log of the service:\n{}", self.service.log());
        }
    }
}

/// A tool whose service holds a thread until the test answers.
struct Slow(Lines);

impl Slow {
    fn new(service: &Served, round: u32) -> Self {
        let mut session = Lines::new(service.connect());
        let name = Self::service(round);
        let name = name.trim_end_matches("()");
        let prefix = name.trim_end_matches("one");
        session.succeeds(&format!("extension_register(\"{prefix}\",[\"{name}\",\"\",\"Waits.\"])"));
        Self(session)
    }

    /// The call of its service. One of an earlier round may not have gone yet.
    fn service(round: u32) -> String {
        format!("slow{round}_one()")
    }

    /// The number of the next call.
    #[track_caller]
    fn called(&mut self) -> String {
        let line = self.0.event();
        assert!(line.contains("extension_called(0,"), "{line}");
        line.split(['(', ',']).nth(2).unwrap().to_owned()
    }

    /// Answers every call so far.
    fn answer_all(&mut self) {
        for line in self.0.events() {
            let call = line.split(['(', ',']).nth(2).unwrap();
            self.answer(call);
        }
    }

    #[track_caller]
    fn answer(&mut self, call: &str) {
        // It is over if its tool has gone.
        let _reply = self.0.request(&format!("extension_reply({call},0,[])"));
    }
}

#[test]
fn root_whichever_way_a_program_ends_at_an_event_its_parent_can_wait_for_it() {
    if !able("root_whichever_way_a_program_ends_at_an_event_its_parent_can_wait_for_it") {
        return;
    }
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let rounds = given("MONITOR_SOAK_ROUNDS").and_then(|it| u32::try_from(it).ok());
    println!("soak: seed {seed}");
    let begin = Instant::now();
    let mut soak = Rounds::new(seed);
    while soak.round < rounds.unwrap_or(ROUNDS) {
        soak.run_round();
        if soak.round.is_multiple_of(100) {
            println!("soak: {} rounds, {:.0?}", soak.round, begin.elapsed());
        }
    }
    let (n, slowest) = (soak.round, soak.slowest);
    println!("soak: {n} rounds, {:.0?}, slowest wait {slowest:.1?}", begin.elapsed());
}
