//! The events and actions of `monitor when`.
//!
//! In: `call open`, `signal SIGTERM,SIGUSR1` and `print,count,time,stop`. Out: the event and the
//! actions, or a failure that names the valid ones.

use crate::cli::args;
use crate::cli::exit::Failure;
use monitor_event::tap::Edge;

/// An event to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhenEvent {
    /// A call of one of these functions, or its return.
    Call(Edge, Vec<String>),
    /// Delivery of one of these signals; empty means any.
    Signal(Vec<u32>),
    /// A process executes a program.
    Exec,
    /// A process exits.
    End,
}

/// Maximum number of signals watched by name.
const MOST_SIGNALS: usize = 16;

impl WhenEvent {
    /// Parses an event.
    pub fn from_text(text: &str) -> Result<Self, Failure> {
        let (verb, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        match (verb, rest) {
            ("call" | "return", names) => {
                let edge = if verb == "call" { Edge::Start } else { Edge::End };
                let names = names.split(',').map(|name| name.trim().to_owned());
                let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
                if names.is_empty() {
                    let why = format!("missing function in `{text}`: use `{verb} FUNCTION`");
                    return Err(Failure::usage(why));
                }
                Ok(Self::Call(edge, names))
            }
            ("signal", names) => signals(names).map(Self::Signal),
            ("exec", "") => Ok(Self::Exec),
            ("end", "") => Ok(Self::End),
            _ => Err(Failure::usage(format!(
                "unknown event {text:?}: expected call FUNCTION, return FUNCTION, \
                 signal [NAME,...], exec or end"
            ))),
        }
    }
}

fn signals(names: &str) -> Result<Vec<u32>, Failure> {
    let names = names.split([',', ' ']).filter(|name| !name.is_empty());
    let numbers = names.map(signal).collect::<Result<Vec<u32>, Failure>>()?;
    if numbers.len() > MOST_SIGNALS {
        let why = format!("at most {MOST_SIGNALS} signals can be named; none means all");
        return Err(Failure::usage(why));
    }
    Ok(numbers)
}

/// The number of a signal.
pub fn signal(name: &str) -> Result<u32, Failure> {
    args::signal(name).map_err(Failure::usage)
}

/// What is done at each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Print a line.
    pub print: bool,
    /// Count the event.
    pub count: bool,
    /// Measure the duration of calls.
    pub time: bool,
    /// Send this signal to the process.
    pub signal: Option<u32>,
}

const STOP: u32 = 19;

impl Actions {
    /// Parses a list of actions.
    pub fn from_text(text: &str) -> Result<Self, Failure> {
        let mut actions = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.split_once(char::is_whitespace) {
                None if word == "print" => actions.print = true,
                None if word == "count" => actions.count = true,
                None if word == "time" => actions.time = true,
                None if word == "stop" => actions.send(STOP)?,
                Some(("kill", name)) => actions.send(signal(name.trim())?)?,
                _ => {
                    return Err(Failure::usage(format!(
                        "unknown action {word:?}: expected print, count, time, stop or \
                         `kill SIGNAL`"
                    )));
                }
            }
        }
        Ok(actions)
    }

    fn send(&mut self, number: u32) -> Result<(), Failure> {
        if self.signal.replace(number).is_some() {
            return Err(Failure::usage("only one signal can be sent: use stop or one kill"));
        }
        Ok(())
    }

    /// Where each action runs, as text.
    pub fn execution_places(&self) -> String {
        let kernel =
            [("count", self.count), ("time", self.time), ("signal", self.signal.is_some())];
        let kernel = kernel.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name);
        let kernel = kernel.collect::<Vec<_>>().join(", ");
        match (kernel.is_empty(), self.print) {
            (true, false) => String::new(),
            (true, true) => "in user space: print".into(),
            (false, false) => format!("in the kernel: {kernel}"),
            (false, true) => format!("in the kernel: {kernel}; in user space: print"),
        }
    }

    /// Checks that the actions are possible at this event.
    pub fn check(&self, event: &WhenEvent) -> Result<(), Failure> {
        match event {
            WhenEvent::Call(..) => Ok(()),
            _ if self.time => {
                Err(Failure::usage("time needs a call: use the event `call FUNCTION`"))
            }
            WhenEvent::End if self.signal.is_some() => {
                Err(Failure::usage("an exiting process takes no signal: use print or count"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<WhenEvent, &str>) {
        match (WhenEvent::from_text(text), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(got), Err(want)) => assert!(got.message.contains(want), "{}", got.message),
            (got, want) => panic!("{text}: {got:?}, not {want:?}"),
        }
    }

    #[test]
    fn an_event_is_a_verb_and_its_argument() {
        check("call MPI_Send", Ok(WhenEvent::Call(Edge::Start, vec!["MPI_Send".into()])));
        check(" return  libc:open ", Ok(WhenEvent::Call(Edge::End, vec!["libc:open".into()])));
        let both = ["MPI_Send", "libc:open"].map(str::to_owned);
        check("call MPI_Send, libc:open,", Ok(WhenEvent::Call(Edge::Start, both.into())));
        check("call ,", Err("use `call FUNCTION`"));
        check("signal", Ok(WhenEvent::Signal(vec![])));
        check("signal SIGTERM,USR1 9", Ok(WhenEvent::Signal(vec![15, 10, 9])));
        check("exec", Ok(WhenEvent::Exec));
    }

    #[test]
    fn an_invalid_event_names_the_valid_ones() {
        check("call", Err("use `call FUNCTION`"));
        check("signal SIGNONE", Err("unknown signal"));
        check("MPI_Send", Err("call FUNCTION"));
        check("", Err("call FUNCTION"));
        check("exec now", Err("unknown event"));
    }

    #[test]
    fn actions_are_separated_by_commas() {
        let it = Actions::from_text("count, time").unwrap();
        assert_eq!(it, Actions { count: true, time: true, ..Actions::default() });
        let it = Actions::from_text("print,kill SIGUSR1").unwrap();
        assert_eq!((it.print, it.signal), (true, Some(10)));
        assert_eq!(Actions::from_text("stop").unwrap().signal, Some(19));
    }

    #[test]
    fn places_of_execution_are_listed() {
        let places = |text| Actions::from_text(text).unwrap().execution_places();
        assert_eq!(places("print, time,stop"), "in the kernel: time, signal; in user space: print");
        assert_eq!(places("count"), "in the kernel: count");
        assert_eq!(places("print"), "in user space: print");
    }

    #[test]
    fn impossible_actions_are_refused() {
        let error = |text: &str| Actions::from_text(text).unwrap_err().message;
        assert!(error("explode").contains("unknown action"));
        assert!(error("").contains("unknown action"));
        assert!(error("stop,kill TERM").contains("only one signal"));
        let timed = Actions::from_text("time").unwrap();
        assert!(timed.check(&WhenEvent::Exec).unwrap_err().message.contains("time needs a call"));
    }
}
