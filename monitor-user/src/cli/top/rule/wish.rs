//! What is watched, as requests of the language.
//!
//! In: an event as people write it, and a process. Out: the lines that watch it. Calls are counted
//! and timed by instruments of the language, which the kernel feeds by itself: nobody is woken for
//! a call, and what they show is asked for now and then. A call is watched at both of its ends, so
//! that it is known how long it took. Signals and ends are told, each of them.

use crate::cli::when::event::Event;
use monitor_event::tap::Edge;
use monitor_model::id::Pid;
use monitor_omis::Value;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A function is called; how long it takes is known from its return.
    Call(String),
    /// A function returns.
    Return(String),
    /// One of these signals is taken; any, if there is none.
    Signal(Vec<u32>),
    /// The process ends.
    End,
}

/// What a line of a rule is about. Its number in the session follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The process comes into scope.
    Attach,
    /// The event, and what it tells.
    Event,
    /// An occurrence.
    Told,
    /// The return that closes a call, and what it tells.
    Close,
    /// What is done at a return that closes a call.
    Closed,
    /// What the instruments show.
    Shown,
    /// It is switched on: from then on it runs.
    On,
    /// What is answered matters to nobody.
    Aside,
}

/// Numbers that a rule has for its requests.
const NUMBERS: u32 = 10;
const PARTS: [Part; 7] =
    [Part::Attach, Part::Event, Part::Told, Part::Close, Part::Closed, Part::On, Part::Shown];

/// What is asked of instruments: how many, and percentiles.
const SHOWN: u32 = 1 << 2 | 1 << 7;

/// The rule and the part that a number stands for.
pub fn part(number: u32) -> (u32, Part) {
    let part = PARTS.get((number % NUMBERS) as usize).copied().unwrap_or(Part::Aside);
    (number / NUMBERS, part)
}

/// The number of a part.
fn number(rule: u32, part: Part) -> u32 {
    let at = PARTS.iter().position(|it| *it == part).unwrap_or(PARTS.len());
    rule * NUMBERS + u32::try_from(at).unwrap_or(0)
}

/// The names of what counts the calls of a rule, and of what times them, as they are written.
fn instruments(rule: u32) -> [String; 2] {
    [format!("\"calls {rule}\""), format!("\"times {rule}\"")]
}

impl Wish {
    /// Reads it; says what would be one.
    pub fn from_text(text: &str) -> Result<Self, String> {
        match Event::from_text(text).map_err(|why| why.message)? {
            Event::Call(Edge::Start, name) => Ok(Self::Call(name)),
            Event::Call(Edge::End, name) => Ok(Self::Return(name)),
            Event::Signal(numbers) => Ok(Self::Signal(numbers)),
            Event::End => Ok(Self::End),
            Event::Exec => {
                Err("executed programs are watched by `monitor when exec`: here call, return, \
                     signal or end"
                    .into())
            }
        }
    }

    /// The lines that start it.
    pub fn start(&self, rule: u32, pid: Pid) -> Vec<String> {
        let n = |part| number(rule, part);
        let (event, told) = (n(Part::Event), n(Part::Told));
        let pid = pid.0;
        let watch = |it: &str, act: &str| format!("{event} [0] {it}: {told} [0] {act}");
        let [calls, times] = instruments(rule);
        let count = format!("cnt_add({calls},1)");
        let name = |it: &String| Value::from(it.as_str());
        let mut lines = vec![format!("{} [0] attach([{pid}])", n(Part::Attach))];
        let aside = n(Part::Aside);
        match self {
            Self::Call(it) => {
                let (close, closed) = (n(Part::Close), n(Part::Closed));
                let name = name(it);
                lines.push(format!("{aside} [0] cnt_create({calls},\"counter\",\"calls\")"));
                lines.push(format!("{aside} [0] cnt_create({times},\"thread_timer\",\"\")"));
                let stop = format!("cnt_stop({times},$thread,$time)");
                lines
                    .push(format!("{close} [0] end_lib_call([{pid}],{name}): {closed} [0] {stop}"));
                let start = format!("{count}; {told} [0] cnt_start({times},$thread,$time)");
                lines.push(watch(&format!("start_lib_call([{pid}],{name})"), &start));
                lines.push(format!("{aside} [0] enable({close})"));
            }
            Self::Return(it) => {
                lines.push(format!("{aside} [0] cnt_create({calls},\"counter\",\"calls\")"));
                lines.push(watch(&format!("end_lib_call([{pid}],{})", name(it)), &count));
            }
            Self::Signal(numbers) => {
                let numbers = Value::List(numbers.iter().map(|it| Value::from(*it)).collect());
                let of = format!("process_signal([{pid}],{numbers})");
                lines.push(watch(&of, "print($time,$2)"));
            }
            Self::End => {
                lines.push(watch(&format!("process_terminated([{pid}])"), "print($time,$2)"));
            }
        }
        lines.push(format!("{} [0] enable({event})", n(Part::On)));
        lines
    }

    /// The line that asks what its instruments show, if it has any.
    pub fn ask(&self, rule: u32) -> Option<String> {
        let names = self.instruments(rule);
        let ask =
            || format!("{} [0] cnt_read([{}],{SHOWN})", number(rule, Part::Shown), names.join(","));
        (!names.is_empty()).then(ask)
    }

    fn instruments(&self, rule: u32) -> Vec<String> {
        let [calls, times] = instruments(rule);
        match self {
            Self::Call(_) => vec![calls, times],
            Self::Return(_) => vec![calls],
            Self::Signal(_) | Self::End => Vec::new(),
        }
    }

    /// The lines that remove it; the last rule of a process lets go of it.
    pub fn remove(&self, rule: u32, (pid, is_last): (Pid, bool)) -> Vec<String> {
        let n = |part| number(rule, part);
        let aside = n(Part::Aside);
        let mut lines = vec![format!("{aside} [0] delete({})", n(Part::Event))];
        if matches!(self, Self::Call(_)) {
            lines.push(format!("{aside} [0] delete({})", n(Part::Close)));
        }
        let names = self.instruments(rule);
        if !names.is_empty() {
            lines.push(format!("{aside} [0] cnt_delete([{}])", names.join(",")));
        }
        lines.extend(is_last.then(|| format!("{aside} [0] detach([{}])", pid.0)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    #[test]
    fn every_wish_is_requests_that_can_be_read() {
        for text in ["call open", "return libc:open@GLIBC_2.2.5", "signal", "signal TERM", "end"] {
            let wish = Wish::from_text(text).unwrap();
            let removed = wish.remove(3, (Pid(7), true));
            for line in wish.start(3, Pid(7)).iter().chain(&removed).chain(&wish.ask(3)) {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
    }

    #[test]
    fn a_number_tells_its_rule_and_its_part() {
        for of in PARTS.into_iter().chain([Part::Aside]) {
            assert_eq!(part(number(12, of)), (12, of));
        }
    }

    #[test]
    fn what_cannot_be_watched_here_says_where_it_can() {
        assert!(Wish::from_text("exec").unwrap_err().contains("monitor when exec"));
        assert!(Wish::from_text("open").unwrap_err().contains("unknown event"));
    }
}
