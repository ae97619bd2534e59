//! What is undone after each loss, and what is not.

use super::*;
use crate::ProbeUse;
use monitor_model::id::{Ns, Pid};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const ID: Identity = Identity { pid: Pid(7), start: Ns(10_000_000) };
const ONE: ToolId = ToolId(1);
const OTHER: ToolId = ToolId(2);

#[test]
fn a_process_is_resumed_only_while_some_tool_holds_it() {
    let mut log = UndoLog::default();
    let (stop, go) = (WorkerRequest::Stop(ID.into()), WorkerRequest::Continue(ID.into()));
    let stopped = Ok(WorkerReply::Stopped(StopMethod::Signal));
    log.record_reply(ONE, &stop, &stopped);
    log.record_reply(OTHER, &stop, &stopped);
    log.record_reply(ONE, &go, &Ok(WorkerReply::Done));
    assert_eq!(log.undo_requests(), [WorkerRequest::Resume(ID, None)]);
    log.record_reply(OTHER, &go, &Err(ControlError::Gone));
    assert_eq!(log.undo_requests().len(), 1, "it was not released");
    log.record_reply(OTHER, &go, &Ok(WorkerReply::Done));
    assert_eq!(log.undo_requests(), []);
}

#[test]
fn a_stop_whose_request_is_on_its_way_is_undone_after_the_reply_to_an_earlier_one() {
    let mut log = UndoLog::default();
    let own = ProcessRef::open_current(Pid(std::process::id())).unwrap().id;
    let (stop, go) = (WorkerRequest::Stop(own.into()), WorkerRequest::Continue(own.into()));
    log.record_request(ONE, &stop);
    log.record_request(ONE, &go);
    log.record_request(ONE, &stop);
    log.record_reply(ONE, &stop, &Ok(WorkerReply::Stopped(StopMethod::Signal)));
    log.record_reply(ONE, &go, &Ok(WorkerReply::Done));
    assert_eq!(log.undo_requests().len(), 1);
    log.record_reply(ONE, &stop, &Err(ControlError::Gone));
    assert_eq!(log.undo_requests(), []);
}

#[test]
fn a_process_stopped_by_a_rule_is_resumed_unless_its_event_is_over() {
    let (mut log, tag) = (UndoLog::default(), RequestTag(5));
    let pos = crate::CodePos { pc: 1, sp: 2 };
    let stopped = Ok(WorkerReply::Stopped(StopMethod::Signal));
    log.record_reply(ONE, &WorkerRequest::HoldForEvent(ID.into(), tag, pos), &stopped);
    log.record_reply(ONE, &WorkerRequest::Stop(ID.into()), &stopped);
    let thread = Identity { pid: Pid(8), ..ID };
    let second = Target { thread: Some(thread), ..ID.into() };
    log.record_reply(ONE, &WorkerRequest::HoldForEvent(second, tag, pos), &stopped);
    log.record_reply(ONE, &WorkerRequest::ReleaseEvent(second, tag), &Ok(WorkerReply::Done));
    let of_first = (ONE, Some((tag, ID.into())));
    assert!(log.entry(ID).stopped.contains_key(&of_first), "its main thread is not released");
    let release = WorkerRequest::ReleaseEvent(ID.into(), tag);
    log.record_reply(ONE, &release, &Ok(WorkerReply::Done));
    assert_eq!(
        log.undo_requests(),
        [WorkerRequest::Resume(ID, None)],
        "the tool itself stopped it"
    );
    log.record_reply(ONE, &WorkerRequest::Continue(ID.into()), &Ok(WorkerReply::Done));
    log.record_reply(ONE, &WorkerRequest::HoldForEvent(ID.into(), tag, pos), &stopped);
    let kind = WorkerEventKind::HoldExpired(std::time::Duration::ZERO);
    let (target, requester) = (ID.into(), Some((ONE, tag)));
    log.record_event(&WorkerEvent { target, requester, kind });
    assert!(log.entries.is_empty());
    // A watched process is recorded even if the request failed: a rule may stop it anyway.
    let watch = WorkerRequest::WatchRules(ID.into(), tag);
    log.record_request(ONE, &watch);
    log.record_reply(ONE, &watch, &Err(ControlError::AlreadyTraced { tracer: 1 }));
    assert_eq!((log.lost_events().len(), log.undo_requests().len()), (1, 0));
    let mut left = UndoLog::default();
    log.all_changes().into_iter().for_each(|it| left.apply(it));
    left.end_rules();
    assert_eq!(left.undo_requests(), [WorkerRequest::Resume(ID, None)]);
    log.record_reply(ONE, &WorkerRequest::Unset(ID.into(), tag), &Ok(WorkerReply::Done));
    assert!(log.entries.is_empty());
}

#[test]
fn a_breakpoint_byte_is_restored_by_the_next_user_worker() {
    let mut log = UndoLog::default();
    let patch = Patch { address: 16, original: 0x55 };
    let set = WorkerRequest::SetBreakpoint(ID.into(), 16, RequestTag(3), ProbeUse::Refused, vec![]);
    log.record_reply(ONE, &set, &Ok(WorkerReply::BreakpointSet(BreakpointMeans::Byte(patch))));
    assert_eq!(log.undo_requests(), [WorkerRequest::Recover(ID, vec![patch])]);
    log.record_reply(ONE, &WorkerRequest::ForgetTool, &Ok(WorkerReply::Done));
    assert_eq!(log.undo_requests(), []);
}

#[test]
fn a_dump_is_recovered_and_reported_although_its_tool_is_gone_and_no_reply_came() {
    let (mut log, tag) = (UndoLog::default(), RequestTag(4));
    let dump = DumpLocation { folder: "/images".into(), name: "7-1".into() };
    let (leave, come) = (
        WorkerRequest::Dump(ID.into(), tag, dump.clone()),
        WorkerRequest::Restore(RequestTag(5), dump.clone()),
    );
    log.record_request(ONE, &leave);
    log.record_request(ONE, &come);
    log.record_reply(ONE, &WorkerRequest::ForgetTool, &Ok(WorkerReply::Done));
    assert_eq!(log.undo_requests(), [WorkerRequest::RecoverDump(ID, dump)]);
    let lost = |id: Identity, tag| WorkerEvent {
        target: id.into(),
        requester: Some((ONE, tag)),
        kind: WorkerEventKind::Failed(ControlError::WorkerLost),
    };
    assert_eq!(log.lost_events(), [lost(ID, tag), lost(Identity::default(), RequestTag(5))]);
    // Started is not over; refused is, and so is completed.
    log.record_reply(ONE, &leave, &Ok(WorkerReply::Done));
    log.record_reply(ONE, &come, &Err(ControlError::Gone));
    assert_eq!(log.lost_events(), [lost(ID, tag)]);
    log.record_event(&WorkerEvent { kind: WorkerEventKind::Dumped, ..lost(ID, tag) });
    assert_eq!((log.lost_events(), log.undo_requests()), (Vec::new(), Vec::new()));
}

#[test]
fn a_process_that_has_the_pid_of_a_stopped_one_is_not_signalled() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let process = ProcessRef::open_current(Pid(child.id())).unwrap();
    process.pidfd.signal(Signal::STOP.as_raw().cast_unsigned()).unwrap();
    let becomes = |state: char| {
        let until = Instant::now() + Duration::from_secs(10);
        while process.stat().unwrap().state != state {
            assert!(Instant::now() < until, "its state did not become {state}");
            std::thread::yield_now();
        }
    };
    becomes('T');
    let earlier = Identity { start: Ns(process.id.start.0 - 1_000_000_000), ..process.id };
    let undo = |id: Identity| {
        let mut log = UndoLog::default();
        let stopped = Ok(WorkerReply::Stopped(StopMethod::Signal));
        log.record_reply(ONE, &WorkerRequest::Stop(id.into()), &stopped);
        log.undo_locally(None);
    };
    undo(earlier);
    assert_eq!(process.stat().unwrap().state, 'T', "a signal would have resumed it at once");
    undo(process.id);
    becomes('S');
    child.kill().unwrap();
    let _status = child.wait().unwrap();
}

#[test]
fn a_reported_folder_that_is_not_the_cgroup_of_the_process_is_not_written() {
    let folder = std::env::temp_dir().join(format!("undo-log-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cgroup.freeze"), "1").unwrap();
    let own = ProcessRef::open_current(Pid(std::process::id())).unwrap().id;
    let mut log = UndoLog::default();
    let frozen = Ok(WorkerReply::Stopped(StopMethod::Freezer(folder.clone())));
    log.record_reply(ONE, &WorkerRequest::Stop(own.into()), &frozen);
    log.undo_locally(None);
    let text = std::fs::read_to_string(folder.join("cgroup.freeze")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(text, "1");
}
