//! Embedded monitors: the engine with its own reader, for a process that runs without the service.
//!
//! In: calls of tools, the time. Out: results in the same call where possible, and samples when
//! they are due. The reader is opened by the first call; the caller provides it and the function
//! that checks files.

use super::{
    Caller, MonitorEngine, MonitorInput, MonitorKey, MonitorOutput, ReadRequest, UserLimits,
};
use monitor_backend::Error;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::{Instant, Ns, status::Refusal as Refused};
use monitor_omis::Status;
use monitor_platform::{PlatformEvent, monitors::MonitorCalls};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::{job_index::RankClaim, shared_read::SharedReader};
use monitor_services::monitor::events;
use std::{collections::BTreeMap, sync::Arc};

/// Opens the reader.
pub type OpenReader = Box<dyn Fn() -> Result<SharedReader, Error> + Send>;

/// Reads the metadata of a file with the rights of this process.
pub type StatFile = Box<dyn Fn(&str) -> Result<FileStat, StatFailure> + Send>;

/// The engine with its reader.
pub struct EmbeddedMonitors {
    engine: MonitorEngine,
    open: OpenReader,
    stat_file: StatFile,
    reader: Option<SharedReader>,
    /// Offset of the realtime clock from the clock of the calls.
    epoch: Ns,
    /// Time of the last call.
    now: Ns,
    sessions: BTreeMap<Conn, SessionId>,
    next: Conn,
    events: Vec<PlatformEvent>,
}

impl EmbeddedMonitors {
    /// No monitors yet, on a node of this name.
    pub fn new(node: Arc<str>, epoch: Ns, open: OpenReader, stat_file: StatFile) -> Self {
        let engine = MonitorEngine::new(node, UserLimits::default());
        let (sessions, events) = (BTreeMap::new(), Vec::new());
        Self { engine, open, stat_file, reader: None, epoch, now: Ns(0), sessions, next: 0, events }
    }

    /// The connection of a tool; its first call opens it.
    fn conn(&mut self, tool: &Tool) -> Conn {
        let found = self.sessions.iter().find(|(_, it)| **it == tool.session);
        if let Some((conn, _)) = found {
            return *conn;
        }
        let conn = self.next;
        self.next += 1;
        self.sessions.insert(conn, tool.session);
        let &Tool { uid, gid, pid, visibility, .. } = tool;
        self.input(MonitorInput::Opened(Caller { conn, uid, gid, pid, visibility }));
        conn
    }

    fn input(&mut self, input: MonitorInput) {
        let now = self.now;
        self.engine.set_clock(Instant { boot: now, unix: Ns(now.0.saturating_add(self.epoch.0)) });
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for output in self.engine.input(now, input) {
                inputs.extend(self.output(output));
            }
        }
    }

    fn output(&mut self, output: MonitorOutput) -> Option<MonitorInput> {
        match output {
            MonitorOutput::Read(looks) => return Some(MonitorInput::ReadingDone(self.read(looks))),
            MonitorOutput::StatFile(at) => {
                return Some(MonitorInput::FileStat(at.key, (self.stat_file)(&at.path)));
            }
            MonitorOutput::CheckClaims(claims) => {
                return Some(MonitorInput::ClaimsSettled(self.settle_claims(claims)));
            }
            MonitorOutput::Reply { tag: Tag::Number(ticket), answer, .. } => {
                let ticket = ticket.cast_unsigned();
                self.events.push(events::completed(ticket, answer));
            }
            MonitorOutput::Event { to, event } => {
                let session = self.sessions.get(&to)?;
                self.events.extend(events::monitor_events(*session, &event));
            }
            // The calls of a session have the number of a ticket, and are not about the service.
            MonitorOutput::Reply { .. } | MonitorOutput::Query { .. } => {}
        }
        None
    }

    fn read(&mut self, mut looks: Vec<ReadRequest>) -> Vec<ReadRequest> {
        let Some(rounds) = &mut self.reader else { return looks };
        rounds.set_needed(self.engine.capabilities().collect(), self.now);
        ReadRequest::read_all(&mut looks, rounds);
        looks
    }

    fn settle_claims(
        &mut self,
        claims: Vec<(MonitorKey, RankClaim)>,
    ) -> Vec<(MonitorKey, Result<(), Refused>)> {
        let (keys, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
        let settled = self.reader.as_mut().map(|it| it.register_ranks(&claims)).unwrap_or_default();
        keys.into_iter().zip(settled).collect()
    }
}

impl MonitorCalls for EmbeddedMonitors {
    fn call(
        &mut self,
        (ticket, now): (Ticket, Ns),
        tool: &Tool,
        call: Call,
    ) -> Result<Option<ProcessResults>, Refusal> {
        self.now = now;
        if self.reader.is_none() {
            let refused = |why: Error| Refusal::new(Status::UNSUPPORTED, why.to_string());
            self.reader = Some((self.open)().map_err(refused)?);
        }
        let from = self.conn(tool);
        let tag = Some(Tag::Number(ticket.cast_signed()));
        self.input(MonitorInput::Called { from, tag, call });
        let is_it =
            |it: &PlatformEvent| matches!(it, PlatformEvent::ActionDone(of, _) if *of == ticket);
        let place = self.events.iter().position(is_it);
        Ok(place.and_then(|place| match self.events.remove(place) {
            PlatformEvent::ActionDone(_, each) => Some(each),
            _ => None,
        }))
    }

    fn session_ended(&mut self, session: SessionId) {
        let left: Vec<Conn> =
            self.sessions.iter().filter(|(_, it)| **it == session).map(|(conn, _)| *conn).collect();
        for conn in left {
            self.input(MonitorInput::Closed(conn));
            self.sessions.remove(&conn);
        }
    }

    fn next_poll(&self) -> Option<Ns> {
        let pending = (!self.events.is_empty()).then_some(Ns(0));
        let tend = self.reader.as_ref().and_then(SharedReader::due);
        [pending, self.engine.due(), tend].into_iter().flatten().min()
    }

    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        self.now = now;
        if self.engine.due().is_some_and(|due| due <= now) {
            self.input(MonitorInput::Tick);
        }
        if let Some(rounds) = self.reader.as_mut().filter(|it| it.due().is_some_and(|at| at <= now))
        {
            rounds.maintain(now);
        }
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::canned::{BEGINNING, Canned};
    use monitor_event::node_event::EventKind;
    use monitor_model::request::MonitorRequest;
    use monitor_protocol::params::Register;

    fn alone() -> EmbeddedMonitors {
        let open = || {
            let backend = Canned::scripted("process 7").expect("a valid script");
            Ok(SharedReader::new((0, Box::new(backend)), Vec::new()))
        };
        EmbeddedMonitors::new(
            "node0".into(),
            Ns(0),
            Box::new(open),
            Box::new(|_| Err(StatFailure::Missing)),
        )
    }

    fn tool(conn: u64) -> Tool {
        Tool::root(SessionId { entry: 0, conn }, 1)
    }

    fn start(it: &mut EmbeddedMonitors, conn: u64) -> ProcessResults {
        let request = MonitorRequest {
            id: Some("m".into()),
            part: "proc".into(),
            every_ns: Some(1_000_000_000),
            ..MonitorRequest::default()
        };
        let events = it.call((5, Ns(0)), &tool(conn), Call::Monitor(request.into()));
        events.expect("accepted").expect("complete at once")
    }

    #[test]
    fn samples_go_to_the_session_that_started_them_and_end_with_it() {
        let mut it = alone();
        assert!(start(&mut it, 1)[0].1.is_ok() && start(&mut it, 2)[0].1.is_ok());
        let again = start(&mut it, 2).remove(0).1.expect_err("the name is taken");
        assert_eq!(again.status, Status::EXISTS);
        it.session_ended(tool(1).session);
        let due = it.next_poll().expect("a timer is due");
        assert!(due >= Ns(1_000_000_000));
        let events = it.poll_events(due);
        let kinds = events.iter().map(|it| match it {
            PlatformEvent::Event(it) => &it.kind,
            other => panic!("{other:?}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [&EventKind::Sampled(tool(2).session)]);
        it.session_ended(tool(2).session);
        assert!(it.engine.is_empty() && it.sessions.is_empty());
    }

    #[test]
    fn a_registration_soon_after_another_is_answered_when_it_is_settled() {
        let mut it = alone();
        let now = BEGINNING.boot;
        let claim = |rank| Call::Register(Register { namespace: "job".into(), rank, pid: Some(7) });
        let first = it.call((5, now), &tool(1), claim(0)).expect("accepted");
        assert!(first.expect("complete at once")[0].1.is_ok());
        assert_eq!(it.call((6, now), &tool(1), claim(1)), Ok(None));
        let due = it.next_poll().expect("a timer is due");
        assert!(due > now);
        let events = it.poll_events(due);
        assert!(
            matches!(&events[..], [PlatformEvent::ActionDone(6, each)] if each[0].1.is_ok()),
            "{events:?}"
        );
    }

    #[test]
    fn a_file_that_the_caller_may_not_read_is_refused() {
        let mut it =
            EmbeddedMonitors { stat_file: Box::new(|_| Err(StatFailure::Denied)), ..alone() };
        let line = br#"{"method":"file","params":{"path":"/a","every_ns":1000000000,"size":true}}"#;
        let (_, call) = Call::from_line(line).expect("a valid call");
        let events =
            it.call((5, Ns(0)), &tool(1), call).expect("accepted").expect("complete at once");
        let why = events[0].1.as_ref().expect_err("permission denied");
        assert_eq!(why.text, "file \"/a\": permission denied");
    }

    #[test]
    fn a_reader_that_cannot_be_opened_is_an_error() {
        let fail = || Err(Error::Denied { what: "reading".into(), need: "CAP_BPF".into() });
        let see = Box::new(|_: &str| Err(StatFailure::Missing));
        let mut it = EmbeddedMonitors::new("node0".into(), Ns(0), Box::new(fail), see);
        let why = it.call((5, Ns(0)), &tool(1), Call::List).expect_err("the reader failed");
        assert_eq!(why.text, "reading needs CAP_BPF");
    }
}
