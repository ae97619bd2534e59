//! Who does the acts, with the rights of this process, on one thread for ever.
//!
//! In: orders. Out: what was done or why not; later, what happened. Everything that it holds, sets
//! and traces is undone by `undo`, which a hand calls when nobody listens to it any more.

mod look;
mod moved;

use super::act::{Act, Done, Happened, Mark, Method, Order, Program, Site, Spot, Tool};
use super::checkpoint::{Check, Moves};
use super::hold::{self, Guards, Holds};
use super::holder::Cause;
use super::loader;
use super::memory;
use super::met::Met;
use super::patience::Patience;
use super::signal;
use super::site;
use super::start;
use super::subject::Subject;
use super::trace::{Place, Tracer, Traces, Wish};
use super::trouble::Trouble;
use super::work::Work;
use monitor_event::thread::Target;
use monitor_model::id::Identity;
use monitor_sys::pidfd::Held;
use monitor_sys::trace::status;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an act may take: a thread deep in the kernel stops only when it comes out.
const ACT_AT_MOST: Duration = Duration::from_secs(2);
/// What the calls of a work are called: no tool has one of that name.
const WORK: Mark = Mark(u64::MAX);

/// Does acts.
#[derive(Default)]
pub struct Worker {
    holds: Holds,
    guards: Guards,
    traces: Traces,
    met: Met,
    moves: Moves,
    criu: Check,
    sites: Vec<Site>,
    /// What was started here and must be waited for when it ends.
    children: Vec<i32>,
    told: Vec<Happened>,
    line: Option<OwnedFd>,
    /// Who has kernel programs, which end with it.
    daemon: Option<Held>,
}

type Answer = Result<Done, Trouble>;

impl Worker {
    /// One that gives up any wait when the other end of this line has gone, which is the daemon's.
    pub fn on(line: OwnedFd, daemon: Option<Held>) -> Self {
        let mut worker = Self::default();
        (worker.line, worker.daemon) = (Some(line), daemon);
        worker
    }

    /// Does what is asked.
    pub fn obey(&mut self, order: &Order) -> Answer {
        let tool = order.tool;
        match &order.act {
            Act::Stop(target) => self.stop(tool, target),
            Act::Continue(target) => self.go_on(tool, target),
            Act::Kill(target, number) => done(signal::kill(&open(target)?, target, *number)),
            Act::Nice(target, value) => done(signal::nice(&open(target)?, target, *value)),
            Act::Read(target, address, bytes) => self.read(target, *address, *bytes),
            Act::Write(target, address, bytes) => self.write(target, *address, bytes),
            Act::Integers(target, first, count) => self.integers(target, *first, *count),
            Act::SetIntegers(target, first, values) => self.set_integers(target, *first, values),
            Act::Floats(target, first, count) => self.floats(target, *first, *count),
            Act::SetFloats(target, first, values) => self.set_floats(target, *first, values),
            Act::Goto(target, address) => self.goto(target, *address),
            Act::Backtrace(target, most, names) => self.backtrace(target, *most, *names),
            Act::Loader(target) => Ok(Done::Images(loader::images(&open(target)?)?)),
            Act::Start(program) => self.start(tool, program),
            Act::Checkpoint => self.check(),
            Act::Lossless(target) => self.lossless(target),
            Act::Movable(target, folder) => self.movable(target, folder),
            Act::Dump(target, mark, dump) => self.dump((tool, *mark), target, dump),
            Act::Restore(mark, dump) => done(self.moves.restore((tool, *mark), dump)),
            Act::Settle(id, dump) => done(self.moves.settle(*id, dump)),
            Act::Work(target, work) => self.work(tool, target, work),
            Act::Recover(id, patches) => {
                let (traces, mut patience) = (&mut self.traces, patience(self.line.as_ref()));
                done(traces.recover(Subject::open(*id)?, patches, &mut patience))
            }
            Act::Sites(sites) => {
                self.sites.clone_from(sites);
                Ok(Done::It)
            }
            Act::Catch(target, mark, spot) => self.catch((tool, *mark), target, *spot),
            Act::Release(target, mark)
                if self.holds.holds((tool, Cause::Met(*mark, *target)), target.process) =>
            {
                self.leave_event((tool, *mark), target);
                done(self.holds.let_go((tool, Cause::Met(*mark, *target)), target.process))
            }
            Act::Forget => {
                self.traces.forget(tool);
                self.holds.forget(tool);
                self.guards.forget(tool);
                self.met.forget(tool);
                Ok(Done::It)
            }
            _ => self.send(tool, &order.act),
        }
    }

    /// The acts that something comes of later.
    fn send(&mut self, tool: Tool, act: &Act) -> Answer {
        let (target, mark) = match act {
            Act::Break(target, _, mark)
            | Act::Step(target, mark)
            | Act::Next(target, mark)
            | Act::Finish(target, mark)
            | Act::Call(target, mark, ..)
            | Act::Watch(target, mark)
            | Act::Unset(target, mark)
            | Act::Met(target, mark, _)
            | Act::Release(target, mark)
            | Act::Deliver(target, mark) => (target, *mark),
            _ => return Err(Trouble::state("this act is none that something comes of")),
        };
        let subject = open(target)?;
        let wish = Wish { tool, mark, tid: subject.thread(target)? };
        let who = (tool, mark);
        let mut patience = patience(self.line.as_ref());
        if matches!(act, Act::Step(..) | Act::Next(..) | Act::Finish(..) | Act::Call(..)) {
            self.holds.may_run(tool, subject.id)?;
            self.met.depart(wish.tid);
        }
        let (traces, id) = (&mut self.traces, subject.id);
        let sent = match act {
            Act::Met(_, _, spot) => {
                self.met.enter(wish.tid, who, *spot);
                Ok(())
            }
            Act::Break(_, address, _) => {
                let place = Place { address: *address, sites: &self.sites };
                let placed = traces.set(subject, place, who, &mut patience);
                return placed.map(Done::Placed);
            }
            Act::Step(..) => traces.step(&wish, subject, &mut patience),
            Act::Next(..) => traces.next(&wish, subject, &mut patience),
            Act::Finish(..) => traces.finish(&wish, subject, &mut patience),
            Act::Call(.., procedure, arguments) => {
                traces.call(&wish, subject, (*procedure, arguments), &mut patience)
            }
            Act::Watch(..) => {
                self.guards.add(open(target)?, who);
                traces.watch(subject, who)
            }
            Act::Unset(..) => {
                let was_guarded = self.guards.remove(who, id);
                traces.unset(who, id).or_else(|why| if was_guarded { Ok(()) } else { Err(why) })
            }
            _ => {
                self.met.leave(wish.tid, who);
                let let_go = traces.go_on(&wish, id, matches!(act, Act::Deliver(..)));
                if let_go.is_err() && self.guards.has(id) && !self.holds.has(id) {
                    // Whoever held it has died, and it stands for nobody any more.
                    open(target)?.let_run();
                }
                let_go
            }
        };
        done(sent)
    }

    /// A process that a kernel program has stopped; or one thread, if it was traced just before.
    fn catch(&mut self, who: (Tool, Mark), target: &Target, spot: Spot) -> Answer {
        let subject = open(target)?;
        let (id, tid) = (subject.id, subject.thread(target)?);
        let (traces, told) = (&mut self.traces, &mut self.told);
        let mut is_traced = || {
            traces.turn(told);
            traces.has_caught(id, tid)
        };
        let holder = (who.0, Cause::Met(who.1, *target));
        let caught = self.holds.catch(holder, subject, &mut is_traced)?;
        if caught.is_some() {
            self.met.enter(tid, who, spot);
        }
        Ok(caught.map_or(Done::It, Done::Stopped))
    }

    fn leave_event(&mut self, who: (Tool, Mark), target: &Target) {
        let thread = target.thread.unwrap_or(target.process);
        self.met.leave(super::subject::raw(thread.pid), who);
    }

    /// Takes in what has happened since; call it when a child or traced thread has changed, and at
    /// the time that `next` says.
    pub fn turn(&mut self) {
        self.traces.turn(&mut self.told);
        let traces = &self.traces;
        self.holds.turn(&|id| traces.is_out(id), &mut self.told);
        self.holds.expire(Instant::now(), &mut self.told);
        // Of one that is traced all statuses are for its tracer, its end too.
        self.children.retain(|pid| traces.has(*pid) || matches!(status(*pid), Ok(None)));
        self.turn_moves();
    }

    /// When to look again, if nothing happens before.
    pub fn next(&self) -> Option<Instant> {
        let look = self.holds.must_look().then(|| Instant::now() + hold::LOOK);
        let deadlines = [self.traces.next_deadline(), self.holds.next_deadline()];
        deadlines.into_iter().chain([look, self.moves.next()]).flatten().min()
    }

    /// Whether it is time to look, which a row of long acts must not put off.
    pub fn is_due(&self) -> bool {
        self.next().is_some_and(|at| at <= Instant::now())
    }

    /// What has happened and was not told yet.
    pub fn told(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.told)
    }

    /// Leaves every process as it was found, when this process ends.
    pub fn undo(&mut self) {
        self.leave(Tracer::Ends);
    }

    fn leave(&mut self, tracer: Tracer) {
        // Before anybody is waited for.
        self.holds.undo();
        let (guards, daemon) = (&self.guards, self.daemon.as_ref());
        let until = Instant::now() + hold::UNREAD_FOR;
        let mut programs_run = || {
            // Whom they stopped before they ended, is found after it.
            let is_over = daemon.is_none_or(Held::has_ended) || Instant::now() >= until;
            guards.let_run();
            !guards.is_empty() && !is_over
        };
        self.traces.undo(tracer, &mut programs_run);
        self.moves.undo();
        self.guards = Guards::default();
    }

    fn stop(&mut self, tool: Tool, target: &Target) -> Answer {
        let subject = open(target)?;
        self.is_here(&subject)?;
        let mut patience = patience(self.line.as_ref());
        if target.thread.is_some() {
            let tid = subject.thread(target)?;
            self.traces.hold(tool, subject, tid, &mut patience)?;
            return Ok(Done::Stopped(Method::Trace));
        }
        let (traces, told) = (&mut self.traces, &mut self.told);
        let mut turn = || traces.turn(told);
        self.holds.stop(tool, subject, &mut patience, &mut turn).map(Done::Stopped)
    }

    fn go_on(&mut self, tool: Tool, target: &Target) -> Answer {
        let subject = open(target)?;
        match target.thread {
            Some(_) => {
                let tid = subject.thread(target)?;
                done(self.traces.release(tool, subject.id, tid))
            }
            None => done(self.holds.release(tool, subject.id)),
        }
    }

    fn read(&mut self, target: &Target, address: u64, bytes: u64) -> Answer {
        let subject = open(target)?;
        let (mut read, fault) = match memory::read(&subject, address, bytes) {
            Err(Trouble::Fault { address, done }) => (done, Some(address)),
            other => (other?, None),
        };
        let range = address..address + read.len() as u64;
        let patches = self.traces.patches(subject.id);
        memory::unpatched(address, &mut read, &patches);
        memory::unpatched(address, &mut read, &site::patches(&subject, &self.sites, &range)?);
        match fault {
            Some(address) => Err(Trouble::Fault { address, done: read }),
            None => Ok(Done::Bytes(read)),
        }
    }

    /// Bytes of ours stay where they are; what is written there comes when they go.
    fn write(&mut self, target: &Target, address: u64, bytes: &[u8]) -> Answer {
        let subject = open(target)?;
        let end = address.checked_add(bytes.len() as u64);
        let range = address..end.ok_or_else(|| Trouble::Range("beyond the last address".into()))?;
        if !site::patches(&subject, &self.sites, &range)?.is_empty() {
            let why = "a kernel probe is there; disable the requests that set it first";
            return Err(Trouble::Unsafe(why.into()));
        }
        let ours = self.traces.patches(subject.id);
        let mut over = bytes.to_vec();
        for patch in ours.iter().filter(|it| range.contains(&it.address)) {
            let place = usize::try_from(patch.address - address).unwrap_or(0);
            over[place] = super::trace::TRAP;
        }
        memory::write(&subject, address, &over)?;
        self.traces.overwrite(subject.id, address, bytes);
        Ok(Done::It)
    }

    fn work(&mut self, tool: Tool, target: &Target, work: &Work) -> Answer {
        let subject = open(target)?;
        self.holds.may_run(tool, subject.id)?;
        let wish = Wish { tool, mark: WORK, tid: subject.pid() };
        let mut patience = patience(self.line.as_ref());
        done(self.traces.work(&wish, subject, work, &mut patience))
    }

    fn start(&mut self, tool: Tool, program: &Program) -> Answer {
        let mut patience = patience(self.line.as_ref());
        let subject = start::start(program, &mut patience)?;
        let id: Identity = subject.id;
        self.children.push(subject.pid());
        if program.stopped {
            self.holds.adopt(tool, subject);
        }
        Ok(Done::Started(id))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leave(Tracer::Stays);
    }
}

fn open(target: &Target) -> Result<Subject, Trouble> {
    Subject::open(target.process)
}

fn done(acted: Result<(), Trouble>) -> Answer {
    acted.map(|()| Done::It)
}

fn patience(line: Option<&OwnedFd>) -> Patience<'_> {
    let line: Option<BorrowedFd<'_>> = line.map(|it| it.as_fd());
    Patience::new(ACT_AT_MOST, line)
}
