//! The calls `account` and `sum`: the usage of the child processes of a connection's process.
//!
//! In: calls, readings. Out: replies, which follow a reading. The accounting ends with its
//! connection.

use super::accounting::{ConnectionAccounting, EVERY, PendingSum};
use super::{Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput};
use monitor_model::{Ns, Pid, Refusal, Status};
use monitor_protocol::call::Tag;
use monitor_sampling::{child_usage::ChildUsage, view::Output};

/// Maximum number of pending sums of a connection.
const SUMS: usize = 64;

impl MonitorEngine {
    /// Starts the accounting of the caller's children; the reply follows the first reading.
    pub(super) fn account(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        now: Ns,
    ) -> Result<Option<Answer>, Refusal> {
        if self.accounts.by_conn(caller.conn).is_some() {
            let why = "account: this connection has one already; call sum";
            return Err(Refusal::new(Status::Exists, why));
        }
        self.check_monitor_limit(caller)?;
        let accounting = ConnectionAccounting {
            owner: caller.conn,
            uid: caller.uid,
            pid: caller.pid,
            consumer: Some(Box::new(ChildUsage::new(Pid(caller.pid), caller.visibility))),
            next: now,
            first: tag,
            sums: Vec::new(),
        };
        self.accounts.0.insert(self.next_key, accounting);
        self.next_key += 1;
        Ok(None)
    }

    /// Requests a sum; the reply follows when it is complete, or after a time limit.
    pub(super) fn sum(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        (child, now): (u32, Ns),
    ) -> Result<Option<Answer>, Refusal> {
        let accounting = self.accounts.by_conn(caller.conn).ok_or_else(|| {
            Refusal::absent("sum without account: call account before the child is started")
        })?;
        if accounting.sums.len() >= SUMS {
            return Err(Refusal::limit(format!("{SUMS} sums are pending, the limit")));
        }
        accounting.sums.push(PendingSum {
            tag,
            child: Pid(child),
            called_at: now,
            was_read: false,
        });
        accounting.next = now;
        Ok(None)
    }

    /// Handles a consumer that comes back from a reading.
    pub(super) fn account_read(
        &mut self,
        key: MonitorKey,
        (consumer, seen): (Box<ChildUsage>, Option<Result<Output, Refusal>>),
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        let Some(accounting) = self.accounts.0.get_mut(&key) else { return };
        accounting.consumer = Some(consumer);
        match seen {
            Some(Err(refusal)) => {
                let begun = accounting.first.is_none();
                accounting.refuse_all(&refusal, out);
                accounting.next = Ns(now.0.saturating_add(EVERY.0));
                if !begun {
                    self.accounts.0.remove(&key);
                }
            }
            _ => accounting.reply_settled(now, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MonitorInput, ReadRequest, UserLimits};
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_model::credentials::Credentials;
    use monitor_model::id::Identity;
    use monitor_model::sample::{BackendKind, Process, ProcessParent, Sample};
    use monitor_protocol::call::Call;
    use monitor_protocol::params::Sum;
    use monitor_sampling::exit_log::ExitLog;
    use monitor_sampling::target::NoNamespaces;
    use monitor_sampling::view::Reading;
    use monitor_sampling::visibility::Visibility;

    const MS: u64 = 1_000_000;

    struct World {
        engine: MonitorEngine,
        now: Ns,
        dying: Vec<ProcessParent>,
    }

    fn id(pid: u32, start: u64) -> Identity {
        Identity { pid: Pid(pid), start: Ns(start) }
    }

    impl World {
        fn new() -> Self {
            let mut engine = MonitorEngine::new("n".into(), UserLimits::default());
            let caller = Caller {
                conn: 1,
                uid: 7,
                gid: 7,
                pid: 10,
                visibility: Visibility::OwnInFull(Credentials { uid: 7, gid: 7 }),
            };
            assert!(engine.input(Ns(0), MonitorInput::Opened(caller)).is_empty());
            Self { engine, now: Ns(0), dying: Vec::new() }
        }

        /// Makes a call, takes the readings it requests, and returns the other outputs.
        fn call(&mut self, tag: i64, call: Call) -> Vec<MonitorOutput> {
            let out = self.engine.input(
                self.now,
                MonitorInput::Called { from: 1, tag: Some(Tag::Number(tag)), call },
            );
            self.read(out)
        }

        fn after(&mut self, ms: u64) -> Vec<MonitorOutput> {
            self.now = Ns(self.now.0 + ms * MS);
            let out = self.engine.input(self.now, MonitorInput::Tick);
            self.read(out)
        }

        fn read(&mut self, out: Vec<MonitorOutput>) -> Vec<MonitorOutput> {
            let mut rest = Vec::new();
            for output in out {
                match output {
                    MonitorOutput::Read(looks) => {
                        let looks = looks.into_iter().map(|look| self.sampled(look)).collect();
                        rest.extend(self.engine.input(self.now, MonitorInput::ReadingDone(looks)));
                    }
                    output => rest.push(output),
                }
            }
            rest
        }

        /// A reading with the caller alive and its child exiting.
        fn sampled(&self, mut look: ReadRequest) -> ReadRequest {
            let caller = Process { id: id(10, 1), ..Process::default() };
            let mut sample =
                Sample { processes: vec![caller], backend: BackendKind::Ebpf, ..Sample::default() };
            sample.at.boot = Ns(5);
            sample.dying.clone_from(&self.dying);
            let (sample, past) = (&sample, &ExitLog::default());
            let reading = Reading {
                sample,
                node: None,
                counters: &Default::default(),
                exit_log: past,
                namespaces: &NoNamespaces,
                shed: &[],
            };
            look.result = Some(look.consumer.consume(&reading, &mut Canned::fixed()));
            look
        }
    }

    fn sum() -> Call {
        Call::Sum(Sum { pid: 20 })
    }

    #[test]
    fn the_reply_comes_when_counting_has_started() {
        let mut world = World::new();
        let out = world.call(1, Call::Account);
        let [MonitorOutput::Reply { answer: Ok(Answer::Account(it)), .. }] = &out[..] else {
            panic!("one reply")
        };
        assert_eq!((it.pid, &*it.backend), (10, "ebpf"));
        assert_eq!(world.engine.due(), Some(Ns(EVERY.0)));
        let again = world.call(2, Call::Account);
        assert!(matches!(&again[..], [MonitorOutput::Reply { answer: Err(_), .. }]));
    }

    #[test]
    fn a_sum_waits_for_the_exit_record_up_to_a_limit() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        world.dying = vec![ProcessParent { id: id(20, 9), parent: Some(id(10, 1)) }];
        assert!(world.call(2, sum()).is_empty());
        assert!(world.after(1000).is_empty(), "its exit record has not arrived");
        let out = world.after(1000);
        let [MonitorOutput::Reply { answer: Ok(Answer::Sum(totals)), .. }] = &out[..] else {
            panic!("one reply")
        };
        assert_eq!((totals.processes_started, totals.awaited), (1, 1));
    }

    #[test]
    fn a_sum_of_an_unknown_child_is_refused() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        let out = world.call(2, sum());
        assert!(matches!(&out[..], [MonitorOutput::Reply { answer: Err(it), .. }]
            if it.status == Status::NotFound));
    }

    #[test]
    fn it_ends_with_its_connection() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        assert!(world.engine.capabilities().next().is_some());
        let out = world.engine.input(world.now, MonitorInput::Closed(1));
        assert!(out.is_empty() && world.engine.due().is_none());
        assert!(world.engine.capabilities().next().is_none(), "nothing stays attached for it");
    }
}
