//! Compiles a rule of the screen to OMIS requests.
//!
//! In: the text of an event, and a process. Out: the requests that watch it. Calls are counted and
//! timed by instruments that the kernel updates: no process is woken for a call, and the values
//! are read periodically. A call is watched at entry and return to time it. Signals and exits are
//! reported one by one.

use crate::cli::when::event::WhenEvent;
use monitor_event::tap::Edge;
use monitor_model::id::Pid;
use monitor_omis::Value;

/// An event that a rule watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedEvent {
    /// Calls of a function, timed until they return.
    Call(String),
    /// Returns of a function.
    Return(String),
    /// Delivery of one of these signals; empty means any.
    Signal(Vec<u32>),
    /// The exit of the process.
    End,
}

/// The role of a request within a rule. It determines the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// Attaches the process.
    Attach,
    /// Defines the event.
    Event,
    /// The action at an occurrence.
    Action,
    /// Defines the return event of a call.
    Close,
    /// The action at the return of a call.
    CloseAction,
    /// Reads the instruments.
    Read,
    /// Enables the event.
    Enable,
    /// A request whose reply is ignored.
    Ignored,
}

/// Request numbers reserved per rule.
const NUMBERS_PER_RULE: u32 = 10;
const PARTS: [RequestPart; 7] = [
    RequestPart::Attach,
    RequestPart::Event,
    RequestPart::Action,
    RequestPart::Close,
    RequestPart::CloseAction,
    RequestPart::Enable,
    RequestPart::Read,
];

/// Flags for reading instruments: count and percentiles.
const READ_FLAGS: u32 = 1 << 2 | 1 << 7;

/// The rule and the part of a request number.
pub fn part_of_number(number: u32) -> (u32, RequestPart) {
    let part =
        PARTS.get((number % NUMBERS_PER_RULE) as usize).copied().unwrap_or(RequestPart::Ignored);
    (number / NUMBERS_PER_RULE, part)
}

/// The request number of a part.
fn request_number(rule: u32, part: RequestPart) -> u32 {
    let at = PARTS.iter().position(|it| *it == part).unwrap_or(PARTS.len());
    rule * NUMBERS_PER_RULE + u32::try_from(at).unwrap_or(0)
}

/// The quoted names of the instruments that count and time the calls of a rule.
fn instruments(rule: u32) -> [String; 2] {
    [format!("\"calls {rule}\""), format!("\"times {rule}\"")]
}

impl WatchedEvent {
    /// Parses an event. The error names the valid events.
    pub fn from_text(text: &str) -> Result<Self, String> {
        match WhenEvent::from_text(text).map_err(|why| why.message)? {
            WhenEvent::Call(Edge::Start, names) => Ok(Self::Call(names.join("|"))),
            WhenEvent::Call(Edge::End, names) => Ok(Self::Return(names.join("|"))),
            WhenEvent::Signal(numbers) => Ok(Self::Signal(numbers)),
            WhenEvent::End => Ok(Self::End),
            WhenEvent::Exec => Err("exec is not supported here: use call, return, signal or end, \
                                    or run `monitor when exec`"
                .into()),
        }
    }

    /// The requests that start the rule.
    pub fn start_lines(&self, rule: u32, pid: Pid) -> Vec<String> {
        let n = |part| request_number(rule, part);
        let (event, action) = (n(RequestPart::Event), n(RequestPart::Action));
        let pid = pid.0;
        let watch = |it: &str, service: &str| format!("{event} [0] {it}: {action} [0] {service}");
        let [calls, times] = instruments(rule);
        let count = format!("cnt_add({calls},1)");
        let name = |it: &String| Value::from(it.as_str());
        let mut lines = vec![format!("{} [0] attach([{pid}])", n(RequestPart::Attach))];
        let ignored = n(RequestPart::Ignored);
        match self {
            Self::Call(it) => {
                let (close, closed) = (n(RequestPart::Close), n(RequestPart::CloseAction));
                let name = name(it);
                lines.push(format!("{ignored} [0] cnt_create({calls},\"counter\",\"calls\")"));
                lines.push(format!("{ignored} [0] cnt_create({times},\"thread_timer\",\"\")"));
                let stop = format!("cnt_stop({times},$thread,$time)");
                lines
                    .push(format!("{close} [0] end_lib_call([{pid}],{name}): {closed} [0] {stop}"));
                let start = format!("{count}; {action} [0] cnt_start({times},$thread,$time)");
                lines.push(watch(&format!("start_lib_call([{pid}],{name})"), &start));
                lines.push(format!("{ignored} [0] enable({close})"));
            }
            Self::Return(it) => {
                lines.push(format!("{ignored} [0] cnt_create({calls},\"counter\",\"calls\")"));
                lines.push(watch(&format!("end_lib_call([{pid}],{})", name(it)), &count));
            }
            Self::Signal(numbers) => {
                let numbers = Value::List(numbers.iter().map(|it| Value::from(*it)).collect());
                let signals = format!("process_signal([{pid}],{numbers})");
                lines.push(watch(&signals, "print($time,$2)"));
            }
            Self::End => {
                lines.push(watch(&format!("process_terminated([{pid}])"), "print($time,$2)"));
            }
        }
        lines.push(format!("{} [0] enable({event})", n(RequestPart::Enable)));
        lines
    }

    /// The request that reads its instruments, if it has any.
    pub fn read_line(&self, rule: u32) -> Option<String> {
        let names = self.instruments(rule);
        let ask = || {
            format!(
                "{} [0] cnt_read([{}],{READ_FLAGS})",
                request_number(rule, RequestPart::Read),
                names.join(",")
            )
        };
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

    /// The requests that remove the rule; the last rule of a process detaches it.
    pub fn remove_lines(&self, rule: u32, (pid, is_last): (Pid, bool)) -> Vec<String> {
        let n = |part| request_number(rule, part);
        let ignored = n(RequestPart::Ignored);
        let mut lines = vec![format!("{ignored} [0] delete({})", n(RequestPart::Event))];
        if matches!(self, Self::Call(_)) {
            lines.push(format!("{ignored} [0] delete({})", n(RequestPart::Close)));
        }
        let names = self.instruments(rule);
        if !names.is_empty() {
            lines.push(format!("{ignored} [0] cnt_delete([{}])", names.join(",")));
        }
        lines.extend(is_last.then(|| format!("{ignored} [0] detach([{}])", pid.0)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    #[test]
    fn every_event_compiles_to_valid_requests() {
        for text in ["call open", "return libc:open@GLIBC_2.2.5", "signal", "signal TERM", "end"] {
            let watched = WatchedEvent::from_text(text).unwrap();
            let removed = watched.remove_lines(3, (Pid(7), true));
            for line in
                watched.start_lines(3, Pid(7)).iter().chain(&removed).chain(&watched.read_line(3))
            {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
    }

    #[test]
    fn a_request_number_identifies_rule_and_part() {
        for part in PARTS.into_iter().chain([RequestPart::Ignored]) {
            assert_eq!(part_of_number(request_number(12, part)), (12, part));
        }
    }

    #[test]
    fn an_unsupported_event_names_the_alternative() {
        assert!(WatchedEvent::from_text("exec").unwrap_err().contains("monitor when exec"));
        assert!(WatchedEvent::from_text("open").unwrap_err().contains("unknown event"));
    }
}
