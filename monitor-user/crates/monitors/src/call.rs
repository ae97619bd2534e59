//! A call goes to whom it is for, and its reply back; refusals are counted.

use super::message::{About, Output};
use super::{Answer, Caller, Engine};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::veil::Veil;

impl Engine {
    /// Does what a call asks, and replies unless that comes later.
    pub(super) fn called(
        &mut self,
        by: (Conn, Option<Tag>),
        call: Call,
        now: Ns,
        out: &mut Vec<Output>,
    ) {
        let (from, tag) = by;
        let Some(caller) = self.callers.get(&from).cloned() else { return };
        let method = call.method();
        // The reply goes before whatever the call lets happen.
        let place = out.len();
        let answer = match call {
            Call::Hello => Ok(Some(Answer::hello(&self.node, &caller))),
            Call::Monitor(request) => self.start(&caller, tag.clone(), *request, (now, out)),
            Call::Cancel(which) => self.cancel((&caller, tag.clone()), &which, now, out),
            Call::List => Ok(Some(Answer::List(self.list(&caller, now)))),
            Call::Attach(named) => self.attach(&caller, &named.id, out).map(Some),
            Call::Renew(named) => self.renew(&caller, &named.id, now).map(Some),
            Call::Heartbeat(params) => self.heartbeat((&caller, tag.clone()), params, (now, out)),
            Call::Beat => {
                self.beat(&caller, now);
                Ok(Some(Answer::Heard {}))
            }
            Call::File(params) => self.file((&caller, tag.clone()), params, (now, out)),
            Call::Account => self.account(&caller, tag.clone(), now),
            Call::Sum(sum) => self.sum(&caller, tag.clone(), (sum.pid, now)),
            Call::Rules => asked((from, &tag), About::Rules, out),
            Call::Probes => asked((from, &tag), About::Probes, out),
            Call::Status => asked((from, &tag), About::Service, out),
            // It has everybody's processes in full.
            Call::Flight(_) if caller.veil != Veil::None => {
                Err(Refusal::denied("the flight recorder has all processes: it takes observe-all"))
            }
            Call::Flight(params) => asked((from, &tag), About::Flight(params), out),
            Call::Register(params) => self.register(&caller, tag.clone(), params, now),
        };
        if let Err(refusal) = &answer {
            self.note_refusal(&caller, method, refusal);
        }
        if let (Some(tag), Some(answer)) = (tag, answer.transpose()) {
            out.insert(place, Output::Reply { to: from, tag, answer });
        }
    }

    /// The same of first samples that could not be had: these are all the replies there are.
    pub(super) fn note_refused(&mut self, out: &[Output]) {
        for output in out {
            let Output::Reply { to, answer: Err(refusal), .. } = output else { continue };
            self.refuse(*to, "monitor", refusal);
        }
    }

    /// Counts a refusal to somebody, and writes it into the log.
    pub fn refuse(&mut self, to: Conn, method: &str, refusal: &Refusal) {
        if let Some(caller) = self.callers.get(&to).cloned() {
            self.note_refusal(&caller, method, refusal);
        }
    }

    /// Counts a refusal, and writes it into the log.
    pub(super) fn note_refusal(&mut self, caller: &Caller, method: &str, refusal: &Refusal) {
        *self.refused.entry(refusal.status.name()).or_default() += 1;
        let (uid, pid) = (caller.uid, caller.pid);
        tracing::info!(uid, pid, method, status = refusal.status.name(), "{refusal}");
    }
}

/// Hands on a question; nobody answers what carries no tag.
fn asked(
    by: (Conn, &Option<Tag>),
    about: About,
    out: &mut Vec<Output>,
) -> Result<Option<Answer>, Refusal> {
    let (to, tag) = by;
    out.extend(tag.clone().map(|tag| Output::Asked { to, tag, about }));
    Ok(None)
}
