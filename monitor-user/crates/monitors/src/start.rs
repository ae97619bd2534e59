//! A request becomes a monitor, or is refused.

use super::monitor::Kept;
use super::{Answer, Caller, Engine, Key, Monitor, Output};
use monitor_model::field::ProcessField;
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::call::Tag;
use monitor_protocol::event::Reason;
use monitor_sampling::plan;
use monitor_sampling::plan::Plan;
use monitor_sampling::schedule::Schedule;
use monitor_sampling::view::View;

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
        self.affordable(caller, plan.every)?;
        self.room_for_groups(caller, &plan)?;
        let id = self.name(caller, &request, (now, out))?;
        let every = plan.every;
        let count = every.map_or(Some(1), |_| request.count);
        let monitor = Monitor {
            grouped: plan.grouping.is_some(),
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
            ended: None,
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
        self.room(caller)?;
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
        if request.every_ns == Some(0) {
            return Err(Refusal::bad("every_ns 0: leave it out for one sample"));
        }
        if let Some(every) = request.every_ns {
            match plan.want.wants(ProcessField::Pss) {
                true => self.limits.slowest_costly(every)?,
                false => self.limits.slowest(every)?,
            }
        }
        if request.count == Some(0) {
            return Err(Refusal::bad("count 0: leave it out for no end"));
        }
        let longest = self.limits.lease_ns;
        match request.lease_ns {
            Some(0) => Err(Refusal::bad("lease_ns 0: leave it out for no lease")),
            Some(lease) if lease > longest => Err(Refusal::limit(format!(
                "lease_ns: the longest is {} s, the limit \"lease\"",
                longest / 1_000_000_000
            ))),
            _ => Ok(()),
        }
    }

    /// The pace of all his monitors together.
    fn affordable(&self, caller: &Caller, every: Option<Ns>) -> Result<(), Refusal> {
        let Some(every) = every else { return Ok(()) };
        let his = self.monitors.values();
        let his = his.filter(|it| it.uid == caller.uid && !it.cancelled && it.ended.is_none());
        let sum: f64 = his.filter_map(|it| it.every).chain([every]).map(per_second).sum();
        let most = self.limits.samples_per_second;
        if sum <= most as f64 {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "the monitors of user {} would give {sum:.0} samples a second, the limit \
             \"samples_per_second\" is {most}: ask less often, or cancel some",
            caller.uid
        )))
    }

    /// Its name: as asked, if the requestor has no other of that name; else one of ours.
    fn name(
        &mut self,
        caller: &Caller,
        request: &Request,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<String, Refusal> {
        let Some(id) = &request.id else {
            return Ok(self.free_name(caller));
        };
        plan::proper(id)?;
        let Some(key) = self.find(caller, id) else { return Ok(id.clone()) };
        if !request.replace {
            let over = self.monitors.get(&key).is_some_and(|it| it.ended.is_some());
            let text = match over {
                true => "has ended, and its events are kept: read or cancel it",
                false => "is there already: cancel it",
            };
            let text = format!("monitor {id:?} {text}, or ask to replace it");
            return Err(Refusal::new(Status::Exists, text));
        }
        self.finish(key, (Some(Reason::Replaced), now), out);
        Ok(id.clone())
    }

    /// Whether he may have one more; what he has counted for him is one each.
    pub(super) fn room(&self, caller: &Caller) -> Result<(), Refusal> {
        let monitors = self.monitors.values().filter(|it| it.uid == caller.uid).count();
        let alarms = self.alarms.values().filter(|it| it.uid == caller.uid).count();
        let (most, uid) = (self.limits.monitors, caller.uid);
        let accounts = self.accounts.of_user(uid);
        if monitors + alarms + accounts < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "user {uid} has {most} monitors, the limit \"monitors\": cancel some"
        )))
    }

    /// Each keeps books of every process for itself.
    fn room_for_groups(&self, caller: &Caller, plan: &Plan) -> Result<(), Refusal> {
        let his = self.monitors.values().filter(|it| it.grouped && it.uid == caller.uid);
        let (most, uid) = (self.limits.groups, caller.uid);
        if plan.grouping.is_none() || his.count() < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "user {uid} has {most} monitors of groups, the limit \"groups\": cancel some"
        )))
    }

    /// A name that the caller does not use.
    pub(super) fn free_name(&self, caller: &Caller) -> String {
        let mut n = self.next_key;
        loop {
            let name = format!("monitor-{n}");
            if self.find(caller, &name).is_none() {
                return name;
            }
            n += 1;
        }
    }

    /// The caller's monitor of that name: of his connection, or one of his user that runs on a
    /// lease.
    pub(super) fn find(&self, caller: &Caller, id: &str) -> Option<Key> {
        let his = |it: &Monitor| {
            it.owner == Some(caller.conn) || (it.owner.is_none() && it.uid == caller.uid)
        };
        let live = self.monitors.iter().filter(|(_, it)| !it.cancelled && it.id == id);
        let alarms = self.alarms.iter().filter(|(_, it)| it.owner == caller.conn && it.id == id);
        live.filter(|(_, it)| his(it))
            .map(|(key, _)| *key)
            .chain(alarms.map(|(key, _)| *key))
            .next()
    }
}

fn per_second(every: Ns) -> f64 {
    1e9 / every.0.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Limits};
    use super::*;
    use monitor_model::request::Rank;
    use monitor_model::whose::Eyes;
    use monitor_protocol::call::Call;
    use monitor_sampling::veil::Veil;

    #[test]
    fn only_root_asks_in_the_name_of_another() {
        let mut engine = Engine::new("n".into(), Limits::default());
        let mut refused = |uid| {
            let veil = if uid == 0 { Veil::None } else { Veil::Own(Eyes { uid, gid: uid }) };
            let caller = Caller { conn: uid.into(), uid, gid: uid, pid: 70, veil };
            let _opened = engine.input(Ns(0), Input::Opened(caller));
            let proxy = Some(Rank { namespace: "job".into(), rank: Some(1) });
            let call = Call::Monitor(Request { proxy, ..Request::default() }.into());
            let called = Input::Called { from: uid.into(), tag: Some(Tag::Number(0)), call };
            engine.input(Ns(0), called).into_iter().find_map(|it| match it {
                Output::Reply { answer: Err(why), .. } => Some(why.status),
                _ => None,
            })
        };
        assert_eq!((refused(7), refused(0)), (Some(Status::NoPermissions), None));
    }

    #[test]
    fn books_of_groups_are_kept_for_so_many_monitors_of_a_user() {
        let mut engine = Engine::new("n".into(), Limits::default());
        let caller = |conn| Caller {
            conn,
            uid: 7,
            gid: 7,
            pid: 70,
            veil: Veil::Own(Eyes { uid: 7, gid: 7 }),
        };
        let _opened = engine.input(Ns(0), Input::Opened(caller(1)));
        let mut start = |group_by: Option<&str>| {
            let request = Request {
                group_by: group_by.map(Into::into),
                every_ns: Some(1_000_000_000),
                ..Request::default()
            };
            let (from, tag, call) = (1, Some(Tag::Number(0)), Call::Monitor(request.into()));
            let mut out = engine.input(Ns(0), Input::Called { from, tag, call });
            out.retain(|it| matches!(it, Output::Reply { .. }));
            out.pop()
        };
        assert!((0..Limits::default().groups).all(|_| start(Some("job")).is_none()));
        let refused = start(Some("job"));
        assert!(matches!(refused, Some(Output::Reply { answer: Err(why), .. })
            if why.status == Status::OutOfResource));
        assert!(start(None).is_none());
    }
}
