//! The book of the rules: what was asked for, and what the replies come to.
//!
//! In: orders, reply lines, the time. Out: lines to say, and how the rules stand. What calls come
//! to is asked for now and then, once more after the end. Pure; every list has its limit.

use super::wish::{Part, Wish, part};
use monitor_format::events;
use monitor_model::event::Signal;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Answer, RequestId, Status, Value, parse};
use monitor_tui::rule::{Last, Order, Rule, Rules, Standing};
use std::collections::VecDeque;

/// Rules at the same time.
const MOST: usize = 32;
/// Occurrences of a rule that are kept.
const KEPT: usize = 8;
/// From one rate to the next, at least.
const RATE: Ns = Ns(1_000_000_000);

/// The book.
#[derive(Default)]
pub struct Book {
    entries: Vec<Entry>,
    n_given: u32,
}

/// A rule, and what must be remembered of it.
struct Entry {
    rule: Rule,
    wish: Wish,
    last: VecDeque<Last>,
    /// When its instruments were asked last.
    asked: Ns,
    /// Whether that was for the last time.
    was_last: bool,
    /// When they were asked for what is known of them.
    shown: Option<Ns>,
    /// When the rate was computed last, and how many there were.
    before: (Ns, u64),
}

impl Book {
    /// Takes an order; gives the lines that carry it out.
    pub fn order(&mut self, order: Order, now: Ns) -> Vec<String> {
        match order {
            Order::Start { id, name, event } => self.start((id, name, event), now),
            Order::Remove(number) => self.remove(number),
        }
    }

    fn start(&mut self, (id, name, event): (Identity, String, String), now: Ns) -> Vec<String> {
        self.n_given += 1;
        let number = self.n_given;
        let read = match self.entries.len() < MOST {
            true => Wish::from_text(&event),
            false => Err(format!("{MOST} rules run: W removes one")),
        };
        let (wish, state, lines) = match read {
            Ok(wish) => {
                let lines = wish.start(number, id.pid);
                (wish, Standing::Asked, lines)
            }
            Err(why) => (Wish::End, Standing::Over(why), Vec::new()),
        };
        // One that is over makes room for one that is not.
        if self.entries.len() >= MOST {
            let over = |it: &Entry| matches!(it.rule.state, Standing::Over(_));
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
        self.entries.push(Entry {
            rule,
            wish,
            last: VecDeque::new(),
            asked: now,
            was_last: false,
            shown: None,
            before: (now, 0),
        });
        lines
    }

    fn remove(&mut self, number: u32) -> Vec<String> {
        let Some(at) = self.entries.iter().position(|it| it.rule.number == number) else {
            return Vec::new();
        };
        let Entry { rule, wish, .. } = self.entries.remove(at);
        let is_last = !self.entries.iter().any(|it| it.rule.id == rule.id);
        wish.remove(number, (rule.id.pid, is_last))
    }

    /// Takes a line of the monitor.
    pub fn hear(&mut self, line: &str) {
        // What is no reply is about nothing that was asked here.
        let Ok(reply) = parse::reply(line.as_bytes()) else { return };
        for answer in &reply.0 {
            let RequestId(id) = answer.id;
            let (number, part) = part(id.get().unwrap_or(0));
            if let Some(entry) = self.entries.iter_mut().find(|it| it.rule.number == number) {
                entry.hear(part, answer);
            }
        }
    }

    /// The monitor is gone, for this reason: nothing runs any more.
    pub fn over(&mut self, why: &str) {
        for it in self.entries.iter_mut().filter(|it| it.runs()) {
            it.rule.state = Standing::Over(why.to_owned());
        }
    }

    /// Whoever is not there any more is not watched.
    pub fn look(&mut self, lives: impl Fn(Identity) -> bool) {
        for it in self.entries.iter_mut().filter(|it| it.runs()) {
            if !lives(it.rule.id) {
                it.rule.state = Standing::Over("the process has ended".into());
                it.rule.per_s = None;
            }
        }
    }

    /// The lines that ask what calls have come to by now.
    pub fn ask(&mut self, now: Ns) -> Vec<String> {
        let of = |it: &mut Entry| {
            if it.was_last {
                return None;
            }
            it.was_last = !it.runs();
            it.asked = now;
            it.wish.ask(it.rule.number)
        };
        self.entries.iter_mut().filter_map(of).collect()
    }

    /// How the rules stand at this time.
    pub fn rules(&mut self, now: Ns) -> Rules {
        let of = |it: &mut Entry| {
            let at = it.shown.unwrap_or(now);
            let since = at.since(it.before.0);
            if it.runs() && since >= RATE {
                let grown = it.rule.count.saturating_sub(it.before.1);
                it.rule.per_s = Some(grown as f64 / since.seconds());
                it.before = (at, it.rule.count);
            }
            Rule { last: it.last.iter().cloned().collect(), ..it.rule.clone() }
        };
        self.entries.iter_mut().map(of).collect()
    }
}

impl Entry {
    const fn runs(&self) -> bool {
        !matches!(self.rule.state, Standing::Over(_))
    }

    fn hear(&mut self, part: Part, answer: &Answer) {
        let status = answer.status;
        match part {
            Part::Told => self.told(&answer.results),
            Part::Shown => self.show(&answer.results),
            Part::Event | Part::Attach if status == Status::LOST => {
                let n = answer.results.first().and_then(Value::integer).unwrap_or(0_u64);
                self.rule.lost += n;
            }
            Part::On if status == Status::OK => {
                if self.rule.state == Standing::Asked {
                    self.rule.state = Standing::Runs;
                }
            }
            Part::Attach | Part::Event | Part::Close if status == Status::OK => {}
            Part::Close if self.runs() => {
                let why = format!("how long calls take is not known: {}", reason(answer));
                self.rule.state = Standing::Partly(why);
            }
            // The first refusal says why; what follows from it says less.
            Part::Attach | Part::Event | Part::On if self.runs() => {
                self.rule.state = Standing::Over(reason(answer));
            }
            Part::Attach | Part::Event | Part::Close | Part::On => {}
            Part::Closed | Part::Aside => {}
        }
    }

    fn told(&mut self, results: &[Value]) {
        let [Value::List(values), ..] = results else { return };
        let number = |at: usize| values.get(at).and_then(Value::integer::<u64>);
        let at = Ns(number(0).unwrap_or(0));
        let text = match &self.wish {
            Wish::Signal(_) => {
                let number = number(1).and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
                events::name(&Signal { number, code: 0, thread: None })
            }
            Wish::End => values.get(1).map_or_else(String::new, |code| format!("with {code}")),
            Wish::Call(_) | Wish::Return(_) => return,
        };
        self.rule.count += 1;
        self.last.push_front(Last { at, text });
        self.last.truncate(KEPT);
    }

    /// The name of each instrument, how many it has, and its percentiles, of which the first is
    /// half and the third 99 of 100.
    fn show(&mut self, results: &[Value]) {
        let [Value::List(values), ..] = results else { return };
        let mut instruments = values.chunks_exact(3);
        let Some(calls) = instruments.next().and_then(|it| it[1].integer()) else { return };
        self.rule.count = calls;
        self.shown = Some(self.asked);
        let times = instruments.next().and_then(|it| it[2].list()).unwrap_or_default();
        let time = |at: usize| times.get(at).and_then(Value::integer).map(Ns);
        self.rule.times = time(0).zip(time(2)).map(|(half, most)| [half, most]);
    }
}

/// Why something was refused, as the monitor says it.
fn reason(answer: &Answer) -> String {
    let text = answer.results.iter().rev().find_map(Value::text);
    let said = text.map(|it| it.to_str_lossy().into_owned());
    said.unwrap_or_else(|| match answer.status {
        Status::PARTIAL => "the process is not there any more".into(),
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

    fn started(event: &str) -> Book {
        let mut book = Book::default();
        let order = Order::Start { id: id(), name: "x".into(), event: event.into() };
        assert!(!book.order(order, Ns(0)).is_empty());
        book
    }

    fn heard(book: &mut Book, lines: &[&str]) -> Rule {
        lines.iter().for_each(|line| book.hear(line));
        book.rules(Ns(0))[0].clone()
    }

    #[test]
    fn calls_are_what_the_instruments_show() {
        let mut book = started("call open");
        let rule = heard(&mut book, &["10 [0] attach(0)", "13 [0] end_lib_call(0)"]);
        assert_eq!(rule.state, Standing::Asked);
        let asked = book.ask(Ns(2_000_000_000));
        assert_eq!(asked, ["16 [0] cnt_read([\"calls 1\",\"times 1\"],132)"]);
        let lines = [
            "11 [0] start_lib_call(0)",
            "15 [0] enable(0)",
            "16 [0] cnt_read(0,[\"calls 1\",6,[],\"times 1\",5,[100,200,300,300]])",
        ];
        let rule = heard(&mut book, &lines);
        assert_eq!((rule.count, rule.per_s, &rule.state), (6, Some(3.0), &Standing::Runs));
        assert_eq!(rule.times, Some([Ns(100), Ns(300)]));
    }

    #[test]
    fn after_the_end_they_are_asked_once_more() {
        let mut book = started("return open");
        book.look(|_| false);
        assert_eq!(book.ask(Ns(1)), ["16 [0] cnt_read([\"calls 1\"],132)"]);
        let rule = heard(&mut book, &["16 [0] cnt_read(0,[\"calls 1\",23,[]])"]);
        assert_eq!((rule.count, rule.times), (23, None));
        assert_eq!(book.ask(Ns(2)), [""; 0]);
    }

    #[test]
    fn signals_have_names_and_only_the_last_are_kept() {
        let mut book = started("signal");
        let rule = heard(&mut book, &["12 [0] print(0,[5,15])"; 20]);
        assert_eq!((rule.count, rule.last.len()), (20, KEPT));
        assert_eq!(rule.last[0], Last { at: Ns(5), text: "SIGTERM".into() });
    }

    #[test]
    fn the_first_refusal_is_the_one_that_is_told() {
        let mut book = started("call nothing");
        let lines = ["11 [0] start_lib_call(300,0,\"no such function\")", "15 [0] enable(306)"];
        let rule = heard(&mut book, &lines);
        assert_eq!(rule.state, Standing::Over("no such function".into()));
    }

    #[test]
    fn what_is_removed_is_let_go_of_with_its_process() {
        let mut book = started("signal");
        let lines = book.order(Order::Remove(1), Ns(0));
        assert_eq!(lines, ["17 [0] delete(11)", "17 [0] detach([7])"]);
        assert!(book.rules(Ns(0)).is_empty());
    }

    #[test]
    fn a_process_or_a_monitor_that_goes_ends_its_rules() {
        let mut book = started("signal");
        book.look(|_| false);
        assert_eq!(book.rules(Ns(0))[0].state, Standing::Over("the process has ended".into()));
        let mut book = started("signal");
        book.over("gone");
        assert_eq!(book.rules(Ns(0))[0].state, Standing::Over("gone".into()));
    }
}
