//! Dispatch of calls to their handlers, replies, and counts of refusals.

use super::message::{MonitorOutput, ServiceQuery};
use super::{Answer, Caller, MonitorEngine};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::visibility::Visibility;

impl MonitorEngine {
    /// Executes a call, and replies unless the reply comes later.
    pub(super) fn handle_call(
        &mut self,
        by: (Conn, Option<Tag>),
        call: Call,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        let (from, tag) = by;
        let Some(caller) = self.callers.get(&from).cloned() else { return };
        let method = call.method();
        // The reply precedes the events that the call causes.
        let place = out.len();
        let answer = match call {
            Call::Hello => Ok(Some(Answer::hello(&self.node, &caller))),
            Call::Monitor(request) => self.start(&caller, tag.clone(), *request, (now, out)),
            Call::Cancel(which) => self.cancel((&caller, tag.clone()), &which, now, out),
            Call::List => Ok(Some(Answer::List(self.list(&caller, now)))),
            Call::Attach(named) => self.attach(&caller, &named.id, out).map(Some),
            Call::Renew(named) => self.renew(&caller, &named.id, now).map(Some),
            Call::Heartbeat(params) => self.heartbeat((&caller, tag.clone()), params, (now, out)),
            Call::SendHeartbeat => {
                self.count_heartbeat(&caller, now);
                Ok(Some(Answer::HeartbeatSent {}))
            }
            Call::File(params) => self.file((&caller, tag.clone()), params, (now, out)),
            Call::Account => self.account(&caller, tag.clone(), now),
            Call::Sum(sum) => self.sum(&caller, tag.clone(), (sum.pid, now)),
            Call::Rules => query((from, &tag), ServiceQuery::Rules, out),
            Call::Probes => query((from, &tag), ServiceQuery::Probes, out),
            Call::Status => query((from, &tag), ServiceQuery::Service, out),
            // The flight recorder has the processes of all users.
            Call::Flight(_) if caller.visibility != Visibility::All => Err(Refusal::denied(
                "the flight recorder has all processes: this needs observe-all",
            )),
            Call::Flight(params) => query((from, &tag), ServiceQuery::Flight(params), out),
            Call::Register(params) => self.register(&caller, tag.clone(), params, now),
        };
        if let Err(refusal) = &answer {
            self.count_refusal(&caller, method, refusal);
        }
        if let (Some(tag), Some(answer)) = (tag, answer.transpose()) {
            out.insert(place, MonitorOutput::Reply { to: from, tag, answer });
        }
    }

    /// Counts refused first samples: the only replies among these outputs.
    pub(super) fn count_refused_samples(&mut self, out: &[MonitorOutput]) {
        for output in out {
            let MonitorOutput::Reply { to, answer: Err(refusal), .. } = output else { continue };
            self.count_refusal_to(*to, "monitor", refusal);
        }
    }

    /// Counts and logs a refusal to a connection.
    pub fn count_refusal_to(&mut self, to: Conn, method: &str, refusal: &Refusal) {
        if let Some(caller) = self.callers.get(&to).cloned() {
            self.count_refusal(&caller, method, refusal);
        }
    }

    /// Counts and logs a refusal to a caller.
    pub(super) fn count_refusal(&mut self, caller: &Caller, method: &str, refusal: &Refusal) {
        *self.refused.entry(refusal.status.name()).or_default() += 1;
        let (uid, pid) = (caller.uid, caller.pid);
        tracing::info!(uid, pid, method, status = refusal.status.name(), "{refusal}");
    }
}

/// Forwards a query to the service; a call without a tag gets no reply.
fn query(
    by: (Conn, &Option<Tag>),
    about: ServiceQuery,
    out: &mut Vec<MonitorOutput>,
) -> Result<Option<Answer>, Refusal> {
    let (to, tag) = by;
    out.extend(tag.clone().map(|tag| MonitorOutput::Query { to, tag, query: about }));
    Ok(None)
}
