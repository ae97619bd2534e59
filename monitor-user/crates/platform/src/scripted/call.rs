//! Library calls of a script: which functions there are, and who calls them.
//!
//! `callable PID NAME`: the process has it. `call PID NAME VALUE…` and `return PID NAME VALUE…`: it
//! was called, and returned, with these values. `received PID SENDER TAG MARK`: it received a
//! marked message.

use super::Scripted;
use crate::reading::Reading;
use crate::{Calls, Happening};
use monitor_backends::canned::Canned;
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_omis::{Status, Value};
use std::collections::BTreeSet;

/// What the script said of calls.
#[derive(Default)]
pub(super) struct Script {
    callable: BTreeSet<(Pid, String)>,
    waiting: Vec<Happening>,
}

impl Script {
    /// Takes a line, if it is about calls.
    pub(super) fn take(&mut self, line: &str, reading: &mut Reading<Canned>) -> bool {
        self.taken(line, reading).is_some()
    }

    /// What was called since.
    pub(super) fn happened(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.waiting)
    }

    fn taken(&mut self, line: &str, reading: &mut Reading<Canned>) -> Option<()> {
        let mut words = line.split(' ');
        let (verb, pid) = (words.next()?, Pid(words.next()?.parse().ok()?));
        let topic = match verb {
            "callable" => {
                let _is_new = self.callable.insert((pid, words.next()?.to_owned()));
                return Some(());
            }
            "call" => EventKind::Called(Tap { name: words.next()?.to_owned(), edge: Edge::Start }),
            "return" => EventKind::Called(Tap { name: words.next()?.to_owned(), edge: Edge::End }),
            "received" => EventKind::MessageReceived,
            _ => return None,
        };
        let id = reading.look(&[pid]).ok()?.first()?.id;
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        let values = numbers?.into_iter().map(|number| EventParam::Value(Value::from(number)));
        let told = [EventParam::Process(id)].into_iter().chain(values).collect();
        let it = NodeEvent { process: Some(id), ..NodeEvent::new(topic, Ns(0), told) };
        self.waiting.push(Happening::Occurred(it));
        Some(())
    }
}

impl Calls for Scripted {
    fn has(&mut self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        if self.calls.callable.contains(&(id.pid, tap.name.clone())) {
            return Ok(());
        }
        let text = format!("no function {} in process {}", tap.name, id.pid.0);
        Err(Refusal::new(Status::NO_SUCH_OBJECT, text))
    }
}
