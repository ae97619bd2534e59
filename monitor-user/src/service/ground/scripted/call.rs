//! Library calls of a script: which functions there are, and who calls them.
//!
//! `callable PID NAME`: the process has it. `call PID NAME VALUE…` and `return PID NAME VALUE…`: it
//! was called, and returned, with these values. `received PID SENDER TAG MARK`: it received a
//! marked message.

use super::Scripted;
use crate::backend::canned::Canned;
use crate::event::occurrence::{Occurrence, Topic};
use crate::event::outcome::{Refusal, Told};
use crate::event::tap::Edge;
use crate::event::tap::Tap;
use crate::model::id::{Identity, Ns, Pid};
use crate::omis::{Status, Value};
use crate::service::ground::reading::Reading;
use crate::service::ground::{Calls, Happening};
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
            "call" => Topic::Called(Tap { name: words.next()?.to_owned(), edge: Edge::Start }),
            "return" => Topic::Called(Tap { name: words.next()?.to_owned(), edge: Edge::End }),
            "received" => Topic::Received,
            _ => return None,
        };
        let id = reading.look(&[pid]).ok()?.first()?.id;
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        let values = numbers?.into_iter().map(|number| Told::Value(Value::from(number)));
        let told = [Told::Process(id)].into_iter().chain(values).collect();
        let it = Occurrence { process: Some(id), ..Occurrence::new(topic, Ns(0), told) };
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
