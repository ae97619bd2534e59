//! Which events of the request language the files `mon/event` and `mon/log` have, and how a reply
//! becomes a list.
//!
//! In: parameters of an event, as `print` returns them. Out: a list with a name for each. What is
//! unknown, -1 or an empty text, is absent.

use super::sexpr::put_pair;
use monitor_omis::Value;
use std::fmt::Write;

/// The name of a parameter that is the time of the event, in nanoseconds since 1970.
const TIME: &str = "unix_ns";

/// An event that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedEvent {
    /// The word that its lists begin with.
    pub kind: &'static str,
    /// The event, as a request has it.
    pub event: &'static str,
    /// The names of its parameters, in their order; empty for one that is left out.
    names: &'static [&'static str],
}

/// Those of the processes of a session.
pub const SESSION_EVENTS: &[FollowedEvent] = &[
    FollowedEvent { kind: "start", event: "new_process()", names: &["pid"] },
    FollowedEvent {
        kind: "end",
        event: "process_terminated([])",
        names: &["pid", "code", "signal"],
    },
    FollowedEvent { kind: "signal", event: "process_signal([],[])", names: &["pid", "number"] },
];

/// Those of a node.
pub const NODE_EVENTS: &[FollowedEvent] = &[
    FollowedEvent {
        kind: "job",
        event: "job_changed([])",
        names: &[
            "id", "runtime", "state", "launcher", "uid", "code", "signal", "ranks", "", TIME,
            "rank", "pid", "place",
        ],
    },
    FollowedEvent {
        kind: "environment",
        event: "environment_changed([])",
        names: &["source", "what", "kind", "old", "new", "pid", "job", "rank", "uid", TIME],
    },
];

/// What a reply at an event says.
#[derive(Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// When it occurred, in nanoseconds since boot.
    pub boot_ns: Option<u64>,
    /// The same since 1970, where the event has that.
    pub unix_ns: Option<u64>,
    /// The process that it names.
    pub pid: Option<u32>,
    /// The list.
    pub content: String,
}

impl FollowedEvent {
    /// The action that returns what [`Self::occurrence`] takes.
    pub fn action(&self) -> String {
        let mut out = "print($time".to_owned();
        for at in 1..=self.names.len() {
            let _ = write!(out, ",${at}");
        }
        out.push(')');
        out
    }

    /// What the action has returned.
    pub fn occurrence(&self, values: &[Value]) -> Occurrence {
        let mut it = Occurrence {
            boot_ns: values.first().and_then(Value::integer),
            unix_ns: None,
            pid: None,
            content: format!("({}", self.kind),
        };
        for (name, value) in self.names.iter().zip(values.iter().skip(1)) {
            match *name {
                "" => continue,
                TIME => {
                    it.unix_ns = value.integer();
                    continue;
                }
                "pid" => it.pid = value.integer(),
                _ => {}
            }
            if let Some(word) = word(value) {
                it.content.push(' ');
                put_pair(&mut it.content, name, &word);
            }
        }
        it.content.push(')');
        it
    }
}

/// A value as a word; `None` if it stands for what is unknown.
fn word(value: &Value) -> Option<String> {
    if let Some(text) = value.text() {
        return Some(text.to_str_lossy().into_owned()).filter(|it| !it.is_empty());
    }
    value.integer::<i64>().filter(|it| *it != -1).map(|it| it.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(event: &FollowedEvent, line: &str) -> Occurrence {
        let reply = monitor_omis::parse::reply(line.as_bytes()).expect("a reply");
        event.occurrence(reply.0[0].results[0].list().expect("a list"))
    }

    #[test]
    fn parameters_have_their_names_and_unknown_ones_are_absent() {
        let end = &SESSION_EVENTS[1];
        assert_eq!(end.action(), "print($time,$1,$2,$3)");
        let it = occurrence(end, "5 [0] print(0,[100,7,143,15])");
        assert_eq!((it.boot_ns, it.unix_ns, it.pid), (Some(100), None, Some(7)));
        assert_eq!(it.content, "(end (pid 7) (code 143) (signal 15))");
        let it = occurrence(end, "5 [0] print(0,[100,7,-1,-1])");
        assert_eq!(it.content, "(end (pid 7))");
    }

    #[test]
    fn an_event_of_a_job_has_its_own_time() {
        let line = "5 [0] print(0,[9,\"a b\",\"prrte\",\"ended\",-1,0,3,0,2,1.5,88,-1,-1,\"\"])";
        let it = occurrence(&NODE_EVENTS[0], line);
        assert_eq!((it.boot_ns, it.unix_ns, it.pid), (Some(9), Some(88), None));
        let text = "(job (id 'a b') (runtime prrte) (state ended) (uid 0) (code 3) (signal 0) \
                    (ranks 2))";
        assert_eq!(it.content, text);
    }
}
