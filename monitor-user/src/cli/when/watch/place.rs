//! Where it is watched: taps on a function, or what the kernel looks out for anyway.

use super::super::super::exit::Failure;
use super::super::super::output::say;
use super::super::event::Event;
use super::super::show::Event as Shown;
use super::{Listed, Watch};
use monitor_backend::rule::act::{Act, Compare, Receiver, Recorded};
use monitor_backend::rule::told::Told as Record;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_format as format;
use monitor_model::event::Signal;
use monitor_platform::program::look;
use monitor_platform::program::look::Look;
use monitor_platform::tap::{Manner, Refusal};
use monitor_symbols as probe;

impl Watch {
    pub(super) fn place(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Call(edge, name) => self.place_taps(*edge, name),
            Event::Signal(numbers) if numbers.is_empty() => {
                self.listen(Look::Signal, None, "signal".into())
            }
            Event::Signal(numbers) => numbers.iter().try_for_each(|number| {
                let it = Signal { number: *number, code: 0, thread: None };
                self.listen(Look::Signal, Some(*number), format::events::name(&it))
            }),
            Event::Exec => self.listen(Look::Exec, None, "exec".into()),
            Event::End => self.listen(Look::Exit, None, "end".into()),
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

    /// What the kernel looks out for, and what is done then besides.
    fn listen(&mut self, look: Look, number: Option<u32>, what: String) -> Result<(), Failure> {
        let mut acts = look.acts(None);
        acts.extend(number.map(|it| Act::Filter(look::NUMBER, Compare::Equal, it.into())));
        let count = self.taps.make_count()?;
        acts.push(Act::Count(count));
        let record = Act::Record(Recorded { urgent: true, ..Recorded::default() });
        acts.extend(self.actions.print.then_some(record));
        acts.extend(self.actions.signal.map(|number| Act::Signal(number, Receiver::Process)));
        let id = self.taps.listen(look.place(), acts)?;
        self.lists.push(Listed { id, look, what, count });
        Ok(())
    }

    /// What a record of a list shows.
    pub(super) fn other(&mut self, it: &Record) -> Option<Shown> {
        let look = self.lists.iter().find(|list| list.id == it.list)?.look;
        let value = it.values[usize::from(look::NUMBER.0)];
        match look {
            Look::Signal => Some(self.show.signal(it.at, it.process.pid, value)),
            Look::Exec => Some(self.show.exec(it.at, it.process.pid)),
            Look::Exit => Some(self.show.end(it.at, it.process.pid, value)),
            _ => None,
        }
    }
}
