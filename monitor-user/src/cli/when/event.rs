//! The events of `monitor when`.
//!
//! In: `call open`, `signal SIGTERM,SIGUSR1`. Out: the event, or a failure that names the valid
//! ones.

use super::super::exit::Failure;
use monitor_event::tap::Edge;
use monitor_model::event::Signal;

/// An event to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhenEvent {
    /// A call of a function, or its return.
    Call(Edge, String),
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
            ("call", name) if !name.is_empty() => Ok(Self::Call(Edge::Start, name.to_owned())),
            ("return", name) if !name.is_empty() => Ok(Self::Call(Edge::End, name.to_owned())),
            ("call" | "return", _) => {
                Err(Failure::usage(format!("missing function in `{text}`: use `{verb} FUNCTION`")))
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

/// The number of a signal, from its name with or without `SIG`, or from its number.
pub fn signal(name: &str) -> Result<u32, Failure> {
    const LAST: u32 = 64;
    let full = if name.starts_with("SIG") { name.to_owned() } else { format!("SIG{name}") };
    let is_it = |number: &u32| {
        let signal = Signal { number: *number, code: 0, thread: None };
        signal.name().as_deref() == Some(&full) || name.parse() == Ok(*number)
    };
    let found = (1..=LAST).find(is_it);
    found.ok_or_else(|| {
        let why = format!("unknown signal {name:?}: expected a name or number, as SIGTERM or 15");
        Failure::usage(why)
    })
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
        check("call MPI_Send", Ok(WhenEvent::Call(Edge::Start, "MPI_Send".into())));
        check(" return  libc:open ", Ok(WhenEvent::Call(Edge::End, "libc:open".into())));
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
}
