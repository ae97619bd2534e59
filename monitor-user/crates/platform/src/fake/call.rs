//! Library calls of a script: which functions there are, and calls of them.
//!
//! `callable PID NAME`: the process has it. `call PID NAME VALUE…` and `return PID NAME VALUE…`: it
//! was called, and returned, with these values. `received PID SENDER TAG MARK`: it received a
//! marked message.

use crate::tap::price::{ProbePlace, ProbePrice};
use crate::{PlatformEvent, events::process_event, poller::Poller};
use monitor_backends::canned::Canned;
use monitor_event::node_event::EventKind;
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::tap::{Edge, Tap};
use monitor_model::{Identity, Ns, Pid};
use monitor_omis::{Status, Value};
use std::collections::BTreeSet;

/// What the script said of calls.
#[derive(Default)]
pub(super) struct FakeCalls {
    callable: BTreeSet<(Pid, String)>,
    pending: Vec<PlatformEvent>,
}

impl FakeCalls {
    /// Takes a line, if it is about calls.
    pub(super) fn apply(&mut self, line: &str, reading: &mut Poller<Canned>) -> bool {
        self.parse(line, reading).is_some()
    }

    /// What was called since.
    pub(super) fn take_events(&mut self) -> Vec<PlatformEvent> {
        std::mem::take(&mut self.pending)
    }

    fn parse(&mut self, line: &str, reading: &mut Poller<Canned>) -> Option<()> {
        let mut words = line.split(' ');
        let (verb, pid) = (words.next()?, Pid(words.next()?.parse().ok()?));
        let kind = match verb {
            "callable" => {
                let _is_new = self.callable.insert((pid, words.next()?.to_owned()));
                return Some(());
            }
            "call" => EventKind::Called(Tap::new(words.next()?, Edge::Start)),
            "return" => EventKind::Called(Tap::new(words.next()?, Edge::End)),
            "received" => EventKind::MessageReceived,
            _ => return None,
        };
        let id = reading.read_processes(&[pid]).ok()?.first()?.id;
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        let values = numbers?.into_iter().map(|number| EventParam::Value(Value::from(number)));
        self.pending.push(PlatformEvent::Event(process_event(kind, Ns(0), id, values)));
        Some(())
    }

    /// Whether the script gives the process this function.
    pub(super) fn check_tap(&self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        if self.callable.contains(&(id.pid, tap.name.clone())) {
            return Ok(());
        }
        let text = format!("no function {} in process {}", tap.name, id.pid.0);
        Err(Refusal::new(Status::NO_SUCH_OBJECT, text))
    }

    /// A probe in a library, at a start for 800 ns or at an end for 2,000 ns.
    pub(super) fn probe_prices(&self, tap: &Tap, id: Identity) -> Result<Vec<ProbePrice>, Refusal> {
        self.check_tap(tap, id)?;
        let (place, ns) = match tap.edge {
            Edge::Start => (ProbePlace::Start, Some(800)),
            Edge::End => (ProbePlace::End, Some(2000)),
        };
        let file = "/usr/lib/libpvm3.so".into();
        Ok(vec![ProbePrice { file, function: 4096, place, n_probes: 1, ns }])
    }
}
