//! Watching: lists are set, what they tell is printed, and the table closes it.
//!
//! It ends with the command or the last of the processes, with the time or the lines that were
//! given, or when it is interrupted.

use super::super::client::runtime;
use super::super::exit::{Exit, Failure};
use super::super::output::{Output, Reader, say};
use super::action::Actions;
use super::command;
use super::event::Event;
use super::show::{Event as Shown, Form, Row, Show};
use super::words::When;
use crate::backend::Backend as _;
use crate::backend::ebpf::rule::KernelRules;
use crate::backend::procfs::{self, Procfs, Root};
use crate::backend::rule::act::{
    Act, Cell, Compare, HistogramId, Receiver, Recorded, Value, Width,
};
use crate::backend::rule::told::Told as Record;
use crate::backend::rule::{ListId, Place};
use crate::meter::filter::Filter;
use crate::model::histogram::Percentiles;
use crate::model::id::{Identity, Ns, Pid};
use crate::model::want::Want;
use crate::probe;
use crate::probe::description::Descriptions;
use crate::probe::tap::newcomer::go_on;
use crate::probe::tap::plan::Edge;
use crate::probe::tap::{Manner, News, Refusal, Tap, Taps};
use crate::sys::{clock, readable};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often is looked whether anybody is left.
const LOOK: Duration = Duration::from_millis(50);
/// Records that are taken at once.
const MOST: usize = 4096;

/// Watches until the end.
pub fn watch(words: &When, event: &Event, actions: &Actions) -> Result<Exit, Failure> {
    let mut watch = Watch::open(words, *actions)?;
    let found = watch.choose(words)?;
    watch.place(event)?;
    let whom = match watch.child {
        Some(_) => "the command and its children".to_owned(),
        None => format!("{} processes and their children", watch.processes.len()),
    };
    say(&format!("watching {whom}; {}", actions.places()));
    let ended = runtime()?.block_on(watch.run(words));
    watch.close(found, ended?)
}

struct Watch {
    taps: Taps,
    actions: Actions,
    processes: Vec<Identity>,
    child: Option<Child>,
    /// What is counted: a tap, or a list with its event.
    tap: Option<Tap>,
    histogram: Option<HistogramId>,
    lists: Vec<Listed>,
    show: Show,
    /// These always get a summary, which tells that nothing more comes.
    is_for_programs: bool,
    out: Output,
    n_lines: u64,
}

/// A list of ours.
struct Listed {
    id: ListId,
    kind: Kind,
    what: String,
    count: Cell,
}

/// What it is about.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Signal,
    Exec,
    End,
}

/// Why it ended.
#[derive(Clone, Copy, PartialEq)]
enum Ended {
    Done,
    Interrupted,
}

const NUMBER: Value = Value(1);

impl Watch {
    fn open(words: &When, actions: Actions) -> Result<Self, Failure> {
        let mut descriptions = Descriptions::shipped();
        for folder in &words.calls {
            descriptions.add_folder(folder)?;
        }
        let rules = Box::new(KernelRules::open()?);
        let taps = Taps::new(Path::new("/proc"), rules, Arc::new(descriptions))?;
        let now = clock::now();
        Ok(Self {
            taps,
            actions,
            processes: Vec::new(),
            child: None,
            tap: None,
            histogram: None,
            lists: Vec::new(),
            show: Show::new(words.form(), now.boot, Ns(now.unix.0.saturating_sub(now.boot.0))),
            is_for_programs: words.form() == Form::Json,
            out: Output::Stream,
            n_lines: 0,
        })
    }

    /// Finds the processes, or starts the command, which waits.
    fn choose(&mut self, words: &When) -> Result<Exit, Failure> {
        if !words.command.is_empty() {
            let (child, pid) = command::start(&words.command)?;
            self.child = Some(child);
            self.taps.hold_newcomers()?;
            self.taps.adopt(pid)?;
            return Ok(Exit::Ok);
        }
        let mut absent = Vec::new();
        for pid in words.pid.iter().map(|pid| Pid(*pid)) {
            match procfs::started(pid) {
                Some(start) => self.processes.push(Identity { pid, start }),
                None => absent.push(pid.0.to_string()),
            }
        }
        if !words.comm.is_empty() {
            self.processes.extend(named(&words.comm)?);
        }
        if self.processes.is_empty() {
            let message = match (words.pid.is_empty(), words.comm.is_empty()) {
                (true, true) => {
                    return Err(Failure::usage("in which processes? --pid, --comm or -- COMMAND"));
                }
                (false, _) => format!("no process {}", absent.join(", ")),
                (true, false) => format!("no process is called {}", words.comm.join(" or ")),
            };
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        self.taps.hold_newcomers()?;
        self.taps.follow(&self.processes.iter().map(|id| id.pid).collect());
        if absent.is_empty() {
            return Ok(Exit::Ok);
        }
        say(&format!("no process {}", absent.join(", ")));
        Ok(Exit::Partial)
    }

    fn place(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Call(edge, name) => self.place_taps(*edge, name),
            Event::Signal(numbers) if numbers.is_empty() => {
                self.listen(Place::SignalDeliver, Kind::Signal, None, "signal".into())
            }
            Event::Signal(numbers) => numbers.iter().try_for_each(|number| {
                let it = crate::model::event::Signal { number: *number, code: 0, thread: None };
                let what = crate::format::events::name(&it);
                self.listen(Place::SignalDeliver, Kind::Signal, Some(*number), what)
            }),
            Event::Exec => self.listen(Place::Exec, Kind::Exec, None, "exec".into()),
            Event::End => self.listen(Place::Exit, Kind::End, None, "end".into()),
        }
    }

    /// Both ends of a function, if it is timed; else the end that is meant.
    fn place_taps(&mut self, edge: Edge, name: &str) -> Result<(), Failure> {
        let tap = Tap { name: name.to_owned(), edge };
        let mut n_found = 0;
        let mut refused = None;
        for id in &self.processes {
            match self.taps.check(&tap, id.pid) {
                Ok(sites) => {
                    n_found += 1;
                    for warning in sites.iter().filter_map(|site| site.pace.warning()) {
                        say(&format!("{name}: {warning}"));
                    }
                }
                Err(Refusal::Place(error @ probe::Error::Unloaded { .. })) => {
                    n_found += 1;
                    say(&format!("{error}: it is watched from when it is loaded"));
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused.filter(|_| n_found == 0) {
            return Err(refusal.into());
        }
        let mut manner =
            Manner { histogram: None, signal: self.actions.signal, is_silent: !self.actions.print };
        if self.actions.time {
            let histogram = self.taps.make_histogram()?;
            self.histogram = Some(histogram);
            match edge {
                Edge::End => manner.histogram = Some(histogram),
                Edge::Start => {
                    let end = Tap { name: name.to_owned(), edge: Edge::End };
                    let histogram = Some(histogram);
                    let silent = Manner { histogram, is_silent: true, signal: None };
                    self.taps.add_tap(end, silent);
                }
            }
        }
        self.taps.add_tap(tap.clone(), manner);
        self.tap = Some(tap);
        Ok(())
    }

    fn listen(
        &mut self,
        place: Place,
        kind: Kind,
        number: Option<u32>,
        what: String,
    ) -> Result<(), Failure> {
        let mut acts = vec![Act::Argument(NUMBER, 1, Width::Whole)];
        acts.extend(number.map(|number| Act::Filter(NUMBER, Compare::Equal, number.into())));
        let count = self.taps.make_count()?;
        acts.push(Act::Count(count));
        let record = Act::Record(Recorded { urgent: true, ..Recorded::default() });
        acts.extend(self.actions.print.then_some(record));
        acts.extend(self.actions.signal.map(|number| Act::Signal(number, Receiver::Process)));
        let id = self.taps.listen(place, acts)?;
        self.lists.push(Listed { id, kind, what, count });
        Ok(())
    }

    async fn run(&mut self, words: &When) -> Result<Ended, Failure> {
        let failed = |error| Failure::failed(format!("cannot wait for events: {error}"));
        let wake =
            self.taps.wake().map(|fd| fd.try_clone_to_owned()).transpose().map_err(failed)?;
        let wake = wake.ok_or_else(|| Failure::failed("the kernel wakes nobody"))?;
        let wake = readable::readable(wake).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut tick = tokio::time::interval(LOOK);
        let end = words.span.map(|span| tokio::time::Instant::now() + span);
        if let Some(child) = &self.child {
            go_on(Pid(child.id()));
        }
        loop {
            tokio::select! {
                ready = wake.readable() => {
                    ready.map_err(failed)?.clear_ready();
                }
                _ = tick.tick() => {}
                _ = interrupt.recv() => return Ok(Ended::Interrupted),
                _ = terminate.recv() => return Ok(Ended::Interrupted),
            }
            let is_over =
                self.is_over() || end.is_some_and(|end| tokio::time::Instant::now() >= end);
            // After it was seen that nobody is left: what they did last has been told by then.
            if self.take(words)? == Reader::Gone || is_over {
                return Ok(Ended::Done);
            }
            if words.lines.is_some_and(|most| self.n_lines >= most) {
                return Ok(Ended::Done);
            }
        }
    }

    /// Whether nobody is left.
    fn is_over(&mut self) -> bool {
        match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => !self.processes.iter().any(|id| procfs::started(id.pid) == Some(id.start)),
        }
    }

    /// Takes and prints what was told.
    fn take(&mut self, words: &When) -> Result<Reader, Failure> {
        loop {
            let news = self.taps.news(MOST);
            if news.is_empty() {
                return Ok(Reader::There);
            }
            for it in news {
                let Some(shown) = self.shown(&it) else { continue };
                if words.lines.is_some_and(|most| self.n_lines >= most) {
                    break;
                }
                self.n_lines += 1;
                let line = self.show.line(&shown) + "\n";
                if self.out.put(line.as_bytes())? == Reader::Gone {
                    return Ok(Reader::Gone);
                }
            }
        }
    }

    fn shown(&mut self, news: &News) -> Option<Shown> {
        match news {
            News::Called(it) => Some(self.show.call(it)).filter(|_| self.actions.print),
            News::Storm(tap, _) => {
                say(&format!("{} is called too often: it is not watched any more", tap.name));
                None
            }
            News::Other(record) => self.other(record).filter(|_| self.actions.print),
        }
    }

    fn other(&mut self, it: &Record) -> Option<Shown> {
        let kind = self.lists.iter().find(|list| list.id == it.list)?.kind;
        let value = it.values[usize::from(NUMBER.0)];
        Some(match kind {
            Kind::Signal => self.show.signal(it.at, it.process.pid, value),
            Kind::Exec => self.show.exec(it.at, it.process.pid),
            Kind::End => self.show.end(it.at, it.process.pid, value),
        })
    }

    /// Prints the table, and says what was lost.
    fn close(mut self, found: Exit, ended: Ended) -> Result<Exit, Failure> {
        let mut rows = Vec::new();
        let mut n_lost = self.taps.n_lost();
        if let Some(tap) = &self.tap {
            let tally = self.taps.tally(tap);
            if tally.is_none() {
                say(&format!("nobody had {}: nothing was watched", tap.name));
            }
            let verb = if tap.edge == Edge::Start { "call" } else { "return" };
            let histogram = self.histogram.map(|id| self.taps.histogram(id));
            let times = histogram.and_then(|it| Percentiles::default().of(&it, [50.0, 99.0]));
            let count = tally.map_or(0, |it| it.runs);
            rows.push(Row { what: format!("{verb} {}", tap.name), count, times });
        }
        for list in &self.lists {
            n_lost += self.taps.runs(list.id).lost_records;
            let count = self.taps.count(list.count);
            rows.push(Row { what: list.what.clone(), count, times: None });
        }
        if self.actions.count || self.actions.time || self.is_for_programs {
            let _reader = self.out.put(self.show.summary(&rows, n_lost).as_bytes())?;
        }
        if n_lost > 0 {
            say(&format!("{n_lost} records were lost: they came faster than they were printed"));
            return Ok(Exit::Partial);
        }
        Ok(if ended == Ended::Interrupted { Exit::Interrupted } else { found })
    }
}

/// The processes with these command names.
fn named(comms: &[String]) -> Result<Vec<Identity>, Failure> {
    let filter = Filter { comms: comms.to_vec(), ..Filter::default() };
    let mut backend = Procfs::open(Root::default())?;
    let sample = backend.read(&Want { processes: true, ..Want::default() })?;
    let own = std::process::id();
    let meant = sample.processes.iter().filter(|it| it.id.pid.0 != own && filter.admits(it));
    Ok(meant.map(|it| it.id).collect())
}
