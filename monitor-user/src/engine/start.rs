//! A request becomes a monitor, or is refused.

use super::monitor::Kept;
use super::{Answer, Caller, Engine, Key, Monitor, Output};
use crate::meter::plan::{self, Plan};
use crate::meter::schedule::Schedule;
use crate::meter::view::View;
use crate::model::field::ProcessField;
use crate::model::id::Ns;
use crate::model::request::Request;
use crate::model::status::{Refusal, Status};
use crate::wire::call::Tag;
use crate::wire::event::Reason;

impl Engine {
    /// Starts a monitor; its first sample is the answer, and comes when it is read.
    pub(super) fn start(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        request: Request,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<Option<Answer>, Refusal> {
        self.possible(caller, &request)?;
        let plan = Plan::of(&request)?;
        self.bearable(&plan, &request)?;
        let id = self.name(caller, &request, out)?;
        let every = plan.every;
        let count = every.map_or(Some(1), |_| request.count);
        let monitor = Monitor {
            id,
            owner: Some(caller.conn),
            uid: caller.uid,
            pid: caller.pid,
            capabilities: plan.capabilities.clone(),
            schedule: Schedule::new(now, every.unwrap_or(Ns(1)), count),
            view: Some(Box::new(View::new(plan, caller.veil))),
            every,
            first: tag,
            seq: 0,
            missed: 0,
            code: request.code,
            follow: request.follow,
            lease: request.lease_ns.map(Ns),
            expires: None,
            cancelled: false,
            hurry: false,
            hurried: false,
            kept: Kept { limit: self.limits.kept_events, ..Kept::default() },
        };
        self.insert(monitor);
        Ok(None)
    }

    /// What no plan knows of: limits of the caller, and what this service does not offer.
    fn possible(&self, caller: &Caller, request: &Request) -> Result<(), Refusal> {
        let mine = self.monitors.values().filter(|it| it.uid == caller.uid).count();
        let most = self.limits.monitors;
        if mine >= most {
            return Err(Refusal::limit(format!(
                "user {} has {most} monitors, the limit \"monitors\": cancel some",
                caller.uid
            )));
        }
        if request.proxy.is_some() && !caller.root() {
            return Err(Refusal::denied("proxy: only the node's own daemons may ask for others"));
        }
        match request.range.as_deref() {
            None | Some("requestor") => {}
            Some(range) => {
                return Err(Refusal::new(
                    Status::NotSupported,
                    format!("range {range:?}: samples go to the requestor alone"),
                ));
            }
        }
        if request.every_ns.is_none() {
            let given = [
                ("count", request.count.is_some()),
                ("lease_ns", request.lease_ns.is_some()),
                ("follow", request.follow),
            ];
            if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
                return Err(Refusal::bad(format!("{key} without every_ns: there is one sample")));
            }
        }
        Ok(())
    }

    /// Limits of pace.
    fn bearable(&self, plan: &Plan, request: &Request) -> Result<(), Refusal> {
        let costly = plan.want.wants(ProcessField::Pss);
        let (least, name) = match costly {
            true => (self.limits.costly_period_ns, "costly_period"),
            false => (self.limits.period_ns, "period"),
        };
        if request.every_ns.is_some_and(|every| every < least) {
            let shortest = humantime_ms(least);
            return Err(Refusal::limit(format!(
                "every_ns: the shortest is {shortest}, the limit {name:?}"
            )));
        }
        if request.count == Some(0) {
            return Err(Refusal::bad("count 0: leave it out for no end"));
        }
        let longest = self.limits.lease_ns;
        match request.lease_ns {
            Some(0) => Err(Refusal::bad("lease_ns 0: leave it out for no lease")),
            Some(lease) if lease > longest => Err(Refusal::limit(format!(
                "lease_ns: the longest is {}, the limit \"lease\"",
                humantime_ms(longest)
            ))),
            _ => Ok(()),
        }
    }

    /// Its name: as asked, if the requestor has no other of that name; else one of ours.
    fn name(
        &mut self,
        caller: &Caller,
        request: &Request,
        out: &mut Vec<Output>,
    ) -> Result<String, Refusal> {
        let Some(id) = &request.id else {
            let mut n = self.next_key;
            while self.find(caller, &format!("monitor-{n}")).is_some() {
                n += 1;
            }
            return Ok(format!("monitor-{n}"));
        };
        plan::proper(id)?;
        let Some(key) = self.find(caller, id) else { return Ok(id.clone()) };
        if !request.replace {
            return Err(Refusal::new(
                Status::Exists,
                format!("monitor {id:?} is there already: cancel it, or ask to replace it"),
            ));
        }
        self.finish(key, Some(Reason::Replaced), out);
        Ok(id.clone())
    }

    /// The caller's monitor of that name: of his connection, or one of his user that runs on a
    /// lease.
    pub(super) fn find(&self, caller: &Caller, id: &str) -> Option<Key> {
        let his = |it: &Monitor| {
            it.owner == Some(caller.conn) || (it.owner.is_none() && it.uid == caller.uid)
        };
        let live = self.monitors.iter().filter(|(_, it)| !it.cancelled);
        live.filter(|(_, it)| it.id == id && his(it)).map(|(key, _)| *key).next()
    }
}

fn humantime_ms(ns: u64) -> String {
    format!("{} ms", ns / 1_000_000)
}
