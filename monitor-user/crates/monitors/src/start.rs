//! Starts monitors: checks a request against the limits, and makes a monitor of it.

use super::monitor::{KeptEvents, Monitor};
use super::reading_shares::KeptMemory;
use super::{Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput};
use monitor_model::{MonitorRequest, Ns, ProcessField, Refusal, Status};
use monitor_protocol::{call::Tag, event::EndReason};
use monitor_sampling::plan::{self, Plan};
use monitor_sampling::{schedule::Schedule, view::View};

impl MonitorEngine {
    /// Starts a monitor; its first sample is the reply, after a reading.
    pub(super) fn start(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        request: MonitorRequest,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<Option<Answer>, Refusal> {
        self.check_options(caller, &request)?;
        let plan = Plan::from_request(&request)?;
        self.check_intervals(&plan, &request)?;
        self.check_rate(caller, plan.every)?;
        let call_bytes = self.check_kept(caller, &request)?;
        self.check_group_limit(caller, &plan)?;
        let id = self.choose_name(caller, &request, (now, out))?;
        let every = plan.every;
        let count = every.map_or(Some(1), |_| request.count);
        let monitor = Monitor {
            grouped: plan.grouping.is_some(),
            id,
            owner: Some(caller.conn),
            uid: caller.uid,
            pid: caller.pid,
            capabilities: plan.capabilities.clone(),
            schedule: self.schedule(now, every, count),
            view: Some(Box::new(View::new(plan, caller.visibility))),
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
            wants_early_read: false,
            is_early_read: false,
            kept: KeptEvents { limit: self.limits.kept_events, ..KeptEvents::default() },
            counted: KeptMemory::default(),
            call_bytes,
            taken_at: None,
            is_extended: false,
        };
        self.insert(monitor);
        Ok(None)
    }

    /// The ticks of a new monitor: after the first they are those of another monitor of the same
    /// period, if there is one, because monitors that tick together share their readings.
    fn schedule(&self, now: Ns, every: Option<Ns>, count: Option<u64>) -> Schedule {
        let Some(period) = every else { return Schedule::new(now, Ns(1), count) };
        let same = self.monitors.values().find(|it| it.every == every && it.ended.is_none());
        match same {
            Some(other) => Schedule::beside(now, (period, other.schedule.start()), count),
            None => Schedule::new(now, period, count),
        }
    }

    /// Checks that are independent of the plan: options that do not fit together or are
    /// unsupported.
    fn check_options(&self, caller: &Caller, request: &MonitorRequest) -> Result<(), Refusal> {
        self.check_monitor_limit(caller)?;
        if request.proxy.is_some() && !caller.is_root() {
            return Err(Refusal::denied("proxy: only root may use it"));
        }
        match request.range.as_deref() {
            None | Some("requestor") => {}
            Some(range) => {
                return Err(Refusal::new(
                    Status::NotSupported,
                    format!("range {range:?}: samples go to the requestor only"),
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
                return Err(Refusal::bad(format!("{key} needs every_ns")));
            }
        }
        Ok(())
    }

    /// Checks the interval, the count and the lease.
    fn check_intervals(&self, plan: &Plan, request: &MonitorRequest) -> Result<(), Refusal> {
        if request.every_ns == Some(0) {
            return Err(Refusal::bad("every_ns 0: omit it for one sample"));
        }
        if let Some(every) = request.every_ns {
            match plan.read_spec.wants(ProcessField::Pss) {
                true => self.limits.check_costly_period(every)?,
                false => self.limits.check_period(every)?,
            }
        }
        if request.count == Some(0) {
            return Err(Refusal::bad("count 0: omit it for no limit"));
        }
        let longest = self.limits.lease_ns;
        match request.lease_ns {
            Some(0) => Err(Refusal::bad("lease_ns 0: omit it for no lease")),
            Some(lease) if lease > longest => Err(Refusal::limit(format!(
                "lease_ns: the longest is {} s, the limit \"lease\"",
                longest / 1_000_000_000
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that there is room for what a monitor keeps of its call, and returns its bytes.
    fn check_kept(&self, caller: &Caller, request: &MonitorRequest) -> Result<usize, Refusal> {
        let bytes = request.bytes();
        let (most, uid) = (self.limits.kept_bytes, caller.uid);
        if self.readings.kept_bytes(uid) + bytes <= most {
            return Ok(bytes);
        }
        Err(Refusal::limit(format!(
            "the monitors of user {uid} would keep more than {most} bytes, the limit \
             \"kept_bytes\": cancel some, or attach to those that run without a connection"
        )))
    }

    /// Checks the rate of all monitors of the user together.
    fn check_rate(&self, caller: &Caller, every: Option<Ns>) -> Result<(), Refusal> {
        let Some(every) = every else { return Ok(()) };
        let own = self.monitors.values();
        let own = own.filter(|it| it.uid == caller.uid && !it.cancelled && it.ended.is_none());
        let sum: f64 = own.filter_map(|it| it.every).chain([every]).map(per_second).sum();
        let most = self.limits.samples_per_second;
        if sum <= most as f64 {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "the monitors of user {} would take {sum:.0} samples per second, the limit \
            \"samples_per_second\" is {most}: increase intervals, or cancel some",
            caller.uid
        )))
    }

    /// The name of the monitor: the requested one if it is free, or a generated one.
    fn choose_name(
        &mut self,
        caller: &Caller,
        request: &MonitorRequest,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<String, Refusal> {
        let Some(id) = &request.id else {
            return Ok(self.free_name(caller));
        };
        plan::check_name(id)?;
        let Some(key) = self.find(caller, id) else { return Ok(id.clone()) };
        if !request.replace {
            let over = self.monitors.get(&key).is_some_and(|it| it.ended.is_some());
            let text = match over {
                true => "has ended, and its events are kept: read or cancel it",
                false => "exists already: cancel it",
            };
            let text = format!("monitor {id:?} {text}, or set replace");
            return Err(Refusal::new(Status::Exists, text));
        }
        self.end_monitor(key, (Some(EndReason::Replaced), now), out);
        Ok(id.clone())
    }

    /// Checks the number of monitors of the user; alarms and accountings count as one each.
    pub(super) fn check_monitor_limit(&self, caller: &Caller) -> Result<(), Refusal> {
        let monitors = self.monitors.values().filter(|it| it.uid == caller.uid).count();
        let alarms = self.alarms.values().filter(|it| it.uid == caller.uid).count();
        let (most, uid) = (self.limits.monitors, caller.uid);
        let accounts = self.accounts.count_of_user(uid);
        if monitors + alarms + accounts < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "user {uid} has {most} monitors, the limit \"monitors\": cancel some"
        )))
    }

    /// Checks the number of monitors with groups: each one tracks all processes.
    fn check_group_limit(&self, caller: &Caller, plan: &Plan) -> Result<(), Refusal> {
        let own = self.monitors.values().filter(|it| it.grouped && it.uid == caller.uid);
        let (most, uid) = (self.limits.groups, caller.uid);
        if plan.grouping.is_none() || own.count() < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "user {uid} has {most} monitors with groups, the limit \"groups\": cancel some"
        )))
    }

    /// A generated name that the caller does not use.
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

    /// The monitor of this name: of the caller's connection, or a detached one of the user.
    pub(super) fn find(&self, caller: &Caller, id: &str) -> Option<MonitorKey> {
        let own = |it: &Monitor| {
            it.owner == Some(caller.conn) || (it.owner.is_none() && it.uid == caller.uid)
        };
        let live = self.monitors.iter().filter(|(_, it)| !it.cancelled && it.id == id);
        let alarms = self.alarms.iter().filter(|(_, it)| it.owner == caller.conn && it.id == id);
        live.filter(|(_, it)| own(it))
            .map(|(key, _)| *key)
            .chain(alarms.map(|(key, _)| *key))
            .next()
    }
}

/// Ticks of this period in a second.
pub(super) fn per_second(every: Ns) -> f64 {
    1e9 / every.0.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::{MonitorInput, UserLimits};
    use super::*;
    use monitor_model::credentials::Credentials;
    use monitor_model::request::RankTarget;
    use monitor_protocol::call::Call;
    use monitor_sampling::visibility::Visibility;

    #[test]
    fn only_root_may_use_proxy() {
        let mut engine = MonitorEngine::new("n".into(), UserLimits::default());
        let mut refused = |uid| {
            let visibility = if uid == 0 {
                Visibility::All
            } else {
                Visibility::OwnInFull(Credentials { uid, gid: uid })
            };
            let caller = Caller { conn: uid.into(), uid, gid: uid, pid: 70, visibility };
            let _opened = engine.input(Ns(0), MonitorInput::Opened(caller));
            let proxy = Some(RankTarget { namespace: "job".into(), rank: Some(1) });
            let call = Call::Monitor(MonitorRequest { proxy, ..MonitorRequest::default() }.into());
            let called = MonitorInput::Called { from: uid.into(), tag: Some(Tag::Number(0)), call };
            engine.input(Ns(0), called).into_iter().find_map(|it| match it {
                MonitorOutput::Reply { answer: Err(why), .. } => Some(why.status),
                _ => None,
            })
        };
        assert_eq!((refused(7), refused(0)), (Some(Status::NoPermissions), None));
    }

    #[test]
    fn monitors_with_groups_of_a_user_are_limited() {
        let mut engine = MonitorEngine::new("n".into(), UserLimits::default());
        let caller = |conn| Caller {
            conn,
            uid: 7,
            gid: 7,
            pid: 70,
            visibility: Visibility::OwnInFull(Credentials { uid: 7, gid: 7 }),
        };
        let _opened = engine.input(Ns(0), MonitorInput::Opened(caller(1)));
        let mut start = |group_by: Option<&str>| {
            let request = MonitorRequest {
                group_by: group_by.map(Into::into),
                every_ns: Some(1_000_000_000),
                ..MonitorRequest::default()
            };
            let (from, tag, call) = (1, Some(Tag::Number(0)), Call::Monitor(request.into()));
            let mut out = engine.input(Ns(0), MonitorInput::Called { from, tag, call });
            out.retain(|it| matches!(it, MonitorOutput::Reply { .. }));
            out.pop()
        };
        assert!((0..UserLimits::default().groups).all(|_| start(Some("job")).is_none()));
        let refused = start(Some("job"));
        assert!(matches!(refused, Some(MonitorOutput::Reply { answer: Err(why), .. })
            if why.status == Status::OutOfResource));
        assert!(start(None).is_none());
    }
}
