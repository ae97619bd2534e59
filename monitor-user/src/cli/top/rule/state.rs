//! The state of the rules: what was requested, and what the replies report.
//!
//! In: orders, reply lines, the time. Out: requests, and the state of each rule. Instruments of
//! calls are read periodically, and once more after the end. No I/O; every list has a limit.

use super::compile::{RequestPart, WatchedEvent, part_of_number};
use monitor_format::events;
use monitor_model::event::Signal;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Answer, RequestId, Status, Value, parse};
use monitor_tui::rule::{Rule, RuleOccurrence, RuleRequest, RuleStatus, Rules};
use std::collections::VecDeque;

/// Maximum number of rules.
const MOST: usize = 32;
/// Occurrences kept per rule.
const KEPT: usize = 8;
/// How long a rule that could not be started is shown.
const FAILED_SHOWN: Ns = Ns(15_000_000_000);
/// Minimum interval between two rates.
const RATE: Ns = Ns(1_000_000_000);

/// All rules of the screen.
#[derive(Default)]
pub struct RuleTable {
    entries: Vec<RuleEntry>,
    last_number: u32,
}

/// A rule and its internal state.
struct RuleEntry {
    rule: Rule,
    watched: WatchedEvent,
    last: VecDeque<RuleOccurrence>,
    /// Whether it was active at some time.
    was_active: bool,
    /// When it was found to have failed.
    failed_at: Option<Ns>,
    /// When its instruments were last requested.
    read_at: Ns,
    /// Whether that was the final request.
    final_read: bool,
    /// When the values that are shown were requested.
    shown_at: Option<Ns>,
    /// Time and count of the last rate.
    rate_base: (Ns, u64),
}

impl RuleTable {
    /// Executes an order; returns the requests to send.
    pub fn execute(&mut self, order: RuleRequest, now: Ns) -> Vec<String> {
        match order {
            RuleRequest::Start { id, name, event } => {
                // The user has read why the one before failed.
                let mut lines = self.remove_where(RuleEntry::has_failed);
                lines.extend(self.start((id, name, event), now));
                lines
            }
            RuleRequest::Remove(number) => self.remove(number),
        }
    }

    fn start(&mut self, (id, name, event): (Identity, String, String), now: Ns) -> Vec<String> {
        self.last_number += 1;
        let number = self.last_number;
        let read = match self.entries.len() < MOST {
            true => WatchedEvent::from_text(&event),
            false => Err(format!("{MOST} rules are running: remove one with W")),
        };
        let (watched, state, lines) = match read {
            Ok(watched) => {
                let lines = watched.start_lines(number, id.pid);
                (watched, RuleStatus::Requested, lines)
            }
            Err(why) => (WatchedEvent::End, RuleStatus::Ended(why), Vec::new()),
        };
        // An ended rule makes room for a new one.
        if self.entries.len() >= MOST {
            let over = |it: &RuleEntry| matches!(it.rule.state, RuleStatus::Ended(_));
            let at = self.entries.iter().position(over).unwrap_or(self.entries.len() - 1);
            drop(self.entries.remove(at));
        }
        let rule = Rule {
            number,
            id,
            name,
            event,
            count: 0,
            per_s: None,
            times: None,
            lost: 0,
            last: Vec::new(),
            state,
        };
        self.entries.push(RuleEntry {
            rule,
            watched,
            last: VecDeque::new(),
            was_active: false,
            failed_at: None,
            read_at: now,
            final_read: false,
            shown_at: None,
            rate_base: (now, 0),
        });
        lines
    }

    fn remove(&mut self, number: u32) -> Vec<String> {
        let Some(at) = self.entries.iter().position(|it| it.rule.number == number) else {
            return Vec::new();
        };
        let RuleEntry { rule, watched, .. } = self.entries.remove(at);
        let is_last = !self.entries.iter().any(|it| it.rule.id == rule.id);
        watched.remove_lines(number, (rule.id.pid, is_last))
    }

    /// Removes the rules that failed some time ago; returns the requests to send.
    pub fn remove_failed(&mut self, now: Ns) -> Vec<String> {
        for it in self.entries.iter_mut().filter(|it| it.has_failed()) {
            let _ = it.failed_at.get_or_insert(now);
        }
        self.remove_where(|it| it.failed_at.is_some_and(|at| now.since(at) >= FAILED_SHOWN))
    }

    fn remove_where(&mut self, is_over: impl Fn(&RuleEntry) -> bool) -> Vec<String> {
        let over = self.entries.iter().filter(|it| is_over(it)).map(|it| it.rule.number);
        let over: Vec<u32> = over.collect();
        over.into_iter().flat_map(|number| self.remove(number)).collect()
    }

    /// Handles a reply line.
    pub fn handle_reply(&mut self, line: &str) {
        // A line that is no reply belongs to no rule.
        let Ok(reply) = parse::reply(line.as_bytes()) else { return };
        for answer in &reply.0 {
            let RequestId(id) = answer.id;
            let (number, part) = part_of_number(id.get().unwrap_or(0));
            if let Some(entry) = self.entries.iter_mut().find(|it| it.rule.number == number) {
                entry.handle_answer(part, answer);
            }
        }
    }

    /// Ends all rules: the connection is lost for this reason.
    pub fn end_all(&mut self, why: &str) {
        for it in self.entries.iter_mut().filter(|it| it.is_running()) {
            it.rule.state = RuleStatus::Ended(why.to_owned());
        }
    }

    /// Ends the rules of processes that have exited.
    pub fn end_exited(&mut self, lives: impl Fn(Identity) -> bool) {
        for it in self.entries.iter_mut().filter(|it| it.is_running()) {
            if !lives(it.rule.id) {
                it.rule.state = RuleStatus::Ended("the process has exited".into());
                it.rule.per_s = None;
            }
        }
    }

    /// The requests that read the instruments of calls.
    pub fn read_lines(&mut self, now: Ns) -> Vec<String> {
        let of = |it: &mut RuleEntry| {
            if it.final_read {
                return None;
            }
            it.final_read = !it.is_running();
            it.read_at = now;
            it.watched.read_line(it.rule.number)
        };
        self.entries.iter_mut().filter_map(of).collect()
    }

    /// The state of the rules at this time.
    pub fn rules(&mut self, now: Ns) -> Rules {
        let of = |it: &mut RuleEntry| {
            let at = it.shown_at.unwrap_or(now);
            let since = at.since(it.rate_base.0);
            if it.is_running() && since >= RATE {
                let grown = it.rule.count.saturating_sub(it.rate_base.1);
                it.rule.per_s = Some(grown as f64 / since.seconds());
                it.rate_base = (at, it.rule.count);
            }
            Rule { last: it.last.iter().cloned().collect(), ..it.rule.clone() }
        };
        self.entries.iter_mut().map(of).collect()
    }
}

impl RuleEntry {
    const fn is_running(&self) -> bool {
        !matches!(self.rule.state, RuleStatus::Ended(_))
    }

    /// Whether it ended without having been active.
    fn has_failed(&self) -> bool {
        !self.was_active && !self.is_running()
    }

    fn handle_answer(&mut self, part: RequestPart, answer: &Answer) {
        let status = answer.status;
        self.was_active |= part == RequestPart::Enable && status == Status::OK;
        match part {
            RequestPart::Action => self.add_occurrence(&answer.results),
            RequestPart::Read => self.set_counters(&answer.results),
            RequestPart::Event | RequestPart::Attach if status == Status::LOST => {
                let n = answer.results.first().and_then(Value::integer).unwrap_or(0_u64);
                self.rule.lost += n;
            }
            RequestPart::Enable
                if status == Status::OK && self.rule.state == RuleStatus::Requested =>
            {
                self.rule.state = RuleStatus::Active;
            }
            RequestPart::Attach | RequestPart::Event | RequestPart::Close | RequestPart::Enable
                if status == Status::OK || !self.is_running() => {}
            RequestPart::Close => {
                let why = format!("call times are not measured: {}", refusal_text(answer));
                self.rule.state = RuleStatus::Degraded(why);
            }
            // The first refusal names the cause; later ones only follow from it.
            RequestPart::Attach | RequestPart::Event | RequestPart::Enable => {
                self.rule.state = RuleStatus::Ended(refusal_text(answer));
            }
            RequestPart::CloseAction | RequestPart::Ignored => {}
        }
    }

    fn add_occurrence(&mut self, results: &[Value]) {
        let [Value::List(values), ..] = results else { return };
        let number = |at: usize| values.get(at).and_then(Value::integer::<u64>);
        let at = Ns(number(0).unwrap_or(0));
        let text = match &self.watched {
            WatchedEvent::Signal(_) => {
                let number = number(1).and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
                events::signal_name(&Signal { number, code: 0, thread: None })
            }
            WatchedEvent::End => {
                values.get(1).map_or_else(String::new, |code| format!("with {code}"))
            }
            WatchedEvent::Call(_) | WatchedEvent::Return(_) => return,
        };
        self.rule.count += 1;
        self.last.push_front(RuleOccurrence { at, text });
        self.last.truncate(KEPT);
    }

    /// Results are name, count and percentiles of each instrument. Percentile 0 is the median,
    /// percentile 2 is the 99th.
    fn set_counters(&mut self, results: &[Value]) {
        let [Value::List(values), ..] = results else { return };
        let mut instruments = values.chunks_exact(3);
        let Some(calls) = instruments.next().and_then(|it| it[1].integer()) else { return };
        self.rule.count = calls;
        self.shown_at = Some(self.read_at);
        let times = instruments.next().and_then(|it| it[2].list()).unwrap_or_default();
        let time = |at: usize| times.get(at).and_then(Value::integer).map(Ns);
        self.rule.times = time(0).zip(time(2)).map(|(half, most)| [half, most]);
    }
}

/// The text of a refusal.
fn refusal_text(answer: &Answer) -> String {
    let text = answer.results.iter().rev().find_map(Value::text);
    let said = text.map(|it| it.to_str_lossy().into_owned());
    said.unwrap_or_else(|| match answer.status {
        Status::PARTIAL => "the process has exited".into(),
        status => format!("status {}", status.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;

    fn id() -> Identity {
        Identity { pid: Pid(7), start: Ns(1) }
    }

    fn started(event: &str) -> RuleTable {
        let mut table = RuleTable::default();
        let order = RuleRequest::Start { id: id(), name: "x".into(), event: event.into() };
        assert!(!table.execute(order, Ns(0)).is_empty());
        table
    }

    fn rule_after(table: &mut RuleTable, lines: &[&str]) -> Rule {
        lines.iter().for_each(|line| table.handle_reply(line));
        table.rules(Ns(0))[0].clone()
    }

    #[test]
    fn the_count_of_calls_comes_from_the_instruments() {
        let mut table = started("call open");
        let rule = rule_after(&mut table, &["10 [0] attach(0)", "13 [0] end_lib_call(0)"]);
        assert_eq!(rule.state, RuleStatus::Requested);
        let asked = table.read_lines(Ns(2_000_000_000));
        assert_eq!(asked, ["16 [0] cnt_read([\"calls 1\",\"times 1\"],132)"]);
        let lines = [
            "11 [0] start_lib_call(0)",
            "15 [0] enable(0)",
            "16 [0] cnt_read(0,[\"calls 1\",6,[],\"times 1\",5,[100,200,300,300]])",
        ];
        let rule = rule_after(&mut table, &lines);
        assert_eq!((rule.count, rule.per_s, &rule.state), (6, Some(3.0), &RuleStatus::Active));
        assert_eq!(rule.times, Some([Ns(100), Ns(300)]));
    }

    #[test]
    fn instruments_are_read_once_more_after_the_end() {
        let mut table = started("return open");
        table.end_exited(|_| false);
        assert_eq!(table.read_lines(Ns(1)), ["16 [0] cnt_read([\"calls 1\"],132)"]);
        let rule = rule_after(&mut table, &["16 [0] cnt_read(0,[\"calls 1\",23,[]])"]);
        assert_eq!((rule.count, rule.times), (23, None));
        assert_eq!(table.read_lines(Ns(2)), [""; 0]);
    }

    #[test]
    fn signals_have_names_and_only_the_last_are_kept() {
        let mut table = started("signal");
        let rule = rule_after(&mut table, &["12 [0] print(0,[5,15])"; 20]);
        assert_eq!((rule.count, rule.last.len()), (20, KEPT));
        assert_eq!(rule.last[0], RuleOccurrence { at: Ns(5), text: "SIGTERM".into() });
    }

    #[test]
    fn the_first_refusal_is_shown() {
        let mut table = started("call nothing");
        let lines = ["11 [0] start_lib_call(300,0,\"no such function\")", "15 [0] enable(306)"];
        let rule = rule_after(&mut table, &lines);
        assert_eq!(rule.state, RuleStatus::Ended("no such function".into()));
    }

    #[test]
    fn a_rule_that_failed_goes_away_and_one_that_was_active_stays() {
        const LATER: Ns = Ns(100_000_000_000);
        let refusal = "11 [0] start_lib_call(300,0,\"no such function\")";
        let mut table = started("call nothing");
        let _ = rule_after(&mut table, &[refusal]);
        assert_eq!(table.remove_failed(Ns(1)), [""; 0]);
        assert_eq!(table.remove_failed(LATER).last().unwrap(), "17 [0] detach([7])");
        assert!(table.rules(LATER).is_empty());
        let mut table = started("call nothing");
        let _ = rule_after(&mut table, &[refusal]);
        let order = RuleRequest::Start { id: id(), name: "x".into(), event: "signal".into() };
        let _ = table.execute(order, Ns(0));
        assert_eq!(table.rules(Ns(0)).iter().map(|it| it.number).collect::<Vec<_>>(), [2]);
        let _ = rule_after(&mut table, &["25 [0] enable(0)"]);
        table.end_exited(|_| false);
        assert_eq!((table.remove_failed(Ns(1)), table.remove_failed(LATER)), (vec![], vec![]));
    }

    #[test]
    fn removing_the_last_rule_detaches_the_process() {
        let mut table = started("signal");
        let lines = table.execute(RuleRequest::Remove(1), Ns(0));
        assert_eq!(lines, ["17 [0] delete(11)", "17 [0] detach([7])"]);
        assert!(table.rules(Ns(0)).is_empty());
    }

    #[test]
    fn the_end_of_a_process_or_of_the_daemon_ends_its_rules() {
        let mut table = started("signal");
        table.end_exited(|_| false);
        assert_eq!(table.rules(Ns(0))[0].state, RuleStatus::Ended("the process has exited".into()));
        let mut table = started("signal");
        table.end_all("gone");
        assert_eq!(table.rules(Ns(0))[0].state, RuleStatus::Ended("gone".into()));
    }
}
