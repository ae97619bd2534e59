//! Watching: lists are set, what they tell is printed, and the table closes it.
//!
//! It ends with the command or the last of the processes, with the time or the lines that were
//! given, or when it is interrupted.

mod place;
mod whom;

use super::super::client::runtime;
use super::super::exit::{Exit, Failure};
use super::super::output::{Output, Reader, say};
use super::action::Actions;
use super::command::Waiting;
use super::event::Event;
use super::show::{Event as Shown, Form, Row, Show};
use super::words::When;
use monitor_backend::rule::ListId;
use monitor_backend::rule::act::{Cell, HistogramId};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_backends::procfs;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::histogram::Percentiles;
use monitor_model::id::{Identity, Ns};
use monitor_platform::program::look::Look;
use monitor_platform::tap::{News, Taps};
use monitor_symbols::description::Descriptions;
use monitor_sys::{clock, readable};
use std::path::Path;
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
    let whom = match watch.command {
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
    command: Option<Waiting>,
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
    look: Look,
    what: String,
    count: Cell,
}

/// Why it ended.
#[derive(Clone, Copy, PartialEq)]
enum Ended {
    Done,
    Interrupted,
}

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
            command: None,
            tap: None,
            histogram: None,
            lists: Vec::new(),
            show: Show::new(words.form(), now.boot, Ns(now.unix.0.saturating_sub(now.boot.0))),
            is_for_programs: words.form() == Form::Json,
            out: Output::Stream,
            n_lines: 0,
        })
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
        if let Some(command) = &mut self.command {
            command.go_on().map_err(failed)?;
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
        match &mut self.command {
            Some(command) => command.has_ended(),
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
