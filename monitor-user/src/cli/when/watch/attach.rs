//! Attaches the rule: taps on a function, or a rule program at a tracepoint.
//!
//! In: the event. Out: taps and installed rules in the session.

use super::super::super::exit::Failure;
use super::super::super::output::notice;
use super::super::event::WhenEvent;
use super::super::show::ShownEvent as Shown;
use super::{InstalledRule, WhenSession};
use monitor_backend::rule::insn::{Compare, Insn, RecordOptions, SignalTarget};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_format as format;
use monitor_model::event::Signal;
use monitor_platform::rules::tracepoints;
use monitor_platform::rules::tracepoints::Tracepoint;
use monitor_platform::tap::{TapOptions, TapError};
use monitor_symbols as probe;

impl WhenSession {
    pub(super) fn attach(&mut self, event: &WhenEvent) -> Result<(), Failure> {
        match event {
            WhenEvent::Call(edge, name) => self.attach_taps(*edge, name),
            WhenEvent::Signal(numbers) if numbers.is_empty() => {
                self.attach_tracepoint(Tracepoint::Signal, None, "signal".into())
            }
            WhenEvent::Signal(numbers) => numbers.iter().try_for_each(|number| {
                let it = Signal { number: *number, code: 0, thread: None };
                self.attach_tracepoint(
                    Tracepoint::Signal,
                    Some(*number),
                    format::events::signal_name(&it),
                )
            }),
            WhenEvent::Exec => self.attach_tracepoint(Tracepoint::Exec, None, "exec".into()),
            WhenEvent::End => self.attach_tracepoint(Tracepoint::Exit, None, "end".into()),
        }
    }

    /// Attaches to entry or return of a function; to both if calls are timed.
    fn attach_taps(&mut self, edge: Edge, name: &str) -> Result<(), Failure> {
        let tap = Tap { name: name.to_owned(), edge };
        let mut n_found = 0;
        let mut refusal_seen = None;
        for id in &self.processes {
            match self.taps.resolve_sites(&tap, id.pid) {
                Ok(sites) => {
                    n_found += 1;
                    for warning in sites.iter().filter_map(|site| site.cost.warning()) {
                        notice(&format!("{name}: {warning}"));
                    }
                }
                Err(TapError::Symbol(error @ probe::SymbolError::NotLoaded { .. })) => {
                    n_found += 1;
                    notice(&format!("{error}: it is attached when it is loaded"));
                }
                Err(refusal) => refusal_seen = Some(refusal),
            }
        }
        if let Some(refusal) = refusal_seen.filter(|_| n_found == 0) {
            return Err(refusal.into());
        }
        let mut options =
            TapOptions { histogram: None, signal: self.actions.signal, is_silent: !self.actions.print };
        if self.actions.time {
            let histogram = self.taps.make_histogram()?;
            self.histogram = Some(histogram);
            match edge {
                Edge::End => options.histogram = Some(histogram),
                Edge::Start => {
                    let end = Tap { name: name.to_owned(), edge: Edge::End };
                    let histogram = Some(histogram);
                    let silent_options = TapOptions { histogram, is_silent: true, signal: None };
                    self.taps.add_tap(end, silent_options);
                }
            }
        }
        self.taps.add_tap(tap.clone(), options);
        self.tap = Some(tap);
        Ok(())
    }

    /// Installs a rule program at a tracepoint that counts, records and signals.
    fn attach_tracepoint(
        &mut self,
        look: Tracepoint,
        number: Option<u32>,
        what: String,
    ) -> Result<(), Failure> {
        let mut acts = look.insns(None);
        acts.extend(number.map(|it| Insn::Filter(tracepoints::NUMBER, Compare::Equal, it.into())));
        let count = self.taps.make_count()?;
        acts.push(Insn::Count(count));
        let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
        acts.extend(self.actions.print.then_some(record));
        acts.extend(self.actions.signal.map(|number| Insn::Signal(number, SignalTarget::Process)));
        let id = self.taps.add_program(look.hook_point(), acts)?;
        self.rules.push(InstalledRule { id, tracepoint: look, what, count });
        Ok(())
    }

    /// The event that a record of a rule program reports.
    pub(super) fn rule_event(&mut self, it: &Record) -> Option<Shown> {
        let look = self.rules.iter().find(|list| list.id == it.program)?.tracepoint;
        let value = it.regs[usize::from(tracepoints::NUMBER.0)];
        match look {
            Tracepoint::Signal => Some(self.show.signal(it.at, it.process.pid, value)),
            Tracepoint::Exec => Some(self.show.exec(it.at, it.process.pid)),
            Tracepoint::Exit => Some(self.show.end(it.at, it.process.pid, value)),
            _ => None,
        }
    }
}
