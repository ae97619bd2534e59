//! What happens, as people write it.
//!
//! In: `call open`, `signal SIGTERM,SIGUSR1`. Out: the event, or what would be one.

use super::super::exit::Failure;
use monitor_event::tap::Edge;
use monitor_model::event::Signal;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A function is called, or returns.
    Call(Edge, String),
    /// A process takes one of these signals; any, if there is none.
    Signal(Vec<u32>),
    /// A process executes a program.
    Exec,
    /// A process ends.
    End,
}

/// Most signals that are watched by name.
const MOST_SIGNALS: usize = 16;

impl Event {
    /// Reads it.
    pub fn from_text(text: &str) -> Result<Self, Failure> {
        let (verb, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        match (verb, rest) {
            ("call", name) if !name.is_empty() => Ok(Self::Call(Edge::Start, name.to_owned())),
            ("return", name) if !name.is_empty() => Ok(Self::Call(Edge::End, name.to_owned())),
            ("call" | "return", _) => {
                Err(Failure::usage(format!("`{text}` names no function: write `{verb} FUNCTION`")))
            }
            ("signal", names) => signals(names).map(Self::Signal),
            ("exec", "") => Ok(Self::Exec),
            ("end", "") => Ok(Self::End),
            _ => Err(Failure::usage(format!(
                "unknown event {text:?}: call FUNCTION, return FUNCTION, signal [NAME,...], exec \
                 or end"
            ))),
        }
    }
}

fn signals(names: &str) -> Result<Vec<u32>, Failure> {
    let names = names.split([',', ' ']).filter(|name| !name.is_empty());
    let numbers = names.map(signal).collect::<Result<Vec<u32>, Failure>>()?;
    if numbers.len() > MOST_SIGNALS {
        return Err(Failure::usage(format!("at most {MOST_SIGNALS} signals; none means all")));
    }
    Ok(numbers)
}

/// The number of a signal, by its name with or without `SIG`, or by its number.
pub fn signal(name: &str) -> Result<u32, Failure> {
    const LAST: u32 = 64;
    let full = if name.starts_with("SIG") { name.to_owned() } else { format!("SIG{name}") };
    let is_it = |number: &u32| {
        let signal = Signal { number: *number, code: 0, thread: None };
        signal.name().as_deref() == Some(&full) || name.parse() == Ok(*number)
    };
    let found = (1..=LAST).find(is_it);
    found.ok_or_else(|| Failure::usage(format!("unknown signal {name:?}, such as SIGTERM or 15")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<Event, &str>) {
        match (Event::from_text(text), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(got), Err(want)) => assert!(got.message.contains(want), "{}", got.message),
            (got, want) => panic!("{text}: {got:?}, not {want:?}"),
        }
    }

    #[test]
    fn an_event_is_a_word_and_what_it_is_about() {
        check("call MPI_Send", Ok(Event::Call(Edge::Start, "MPI_Send".into())));
        check(" return  libc:open ", Ok(Event::Call(Edge::End, "libc:open".into())));
        check("signal", Ok(Event::Signal(vec![])));
        check("signal SIGTERM,USR1 9", Ok(Event::Signal(vec![15, 10, 9])));
        check("exec", Ok(Event::Exec));
    }

    #[test]
    fn what_is_no_event_says_what_is() {
        check("call", Err("write `call FUNCTION`"));
        check("signal SIGNONE", Err("unknown signal"));
        check("MPI_Send", Err("call FUNCTION"));
        check("", Err("call FUNCTION"));
        check("exec now", Err("unknown event"));
    }
}
