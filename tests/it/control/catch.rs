//! Threads that are held at system calls, and processes at the execution of another program.

use super::target::{Target, does, until, worker};
use crate::deadline;
use monitor_control::{
    CallEnd, Catch, Executor, RequestTag, UserWorker as _, WorkerEvent, WorkerEventKind,
    WorkerRequest,
};
use monitor_event::thread::Argument;

const BEGIN: RequestTag = RequestTag(1);
const RETURN: RequestTag = RequestTag(2);
const CALL: RequestTag = RequestTag(3);
/// clock_nanosleep(2), which the target makes all the time.
const SLEEP: u32 = 230;

fn catch(worker: &mut Executor, target: &Target, (end, tag): (CallEnd, RequestTag), calls: &[u32]) {
    let what = Catch::SystemCalls(end, calls.to_vec());
    let _set = does(worker, WorkerRequest::Catch(target.whole(), what, tag));
}

fn release(worker: &mut Executor, held: &WorkerEvent, tag: RequestTag) {
    let _released = does(worker, WorkerRequest::ReleaseEvent(held.target, tag));
}

#[test]
fn a_thread_is_held_before_its_system_call_and_after_it() {
    let (target, mut worker) = (Target::new("slow", 2), worker());
    catch(&mut worker, &target, (CallEnd::Begin, BEGIN), &[SLEEP, 0]);
    catch(&mut worker, &target, (CallEnd::Return, RETURN), &[SLEEP]);
    for _ in 0..23 {
        let begins = until(&mut worker, BEGIN);
        assert_eq!(begins.kind, WorkerEventKind::CallBegins(SLEEP));
        release(&mut worker, &begins, BEGIN);
        let returned = until(&mut worker, RETURN);
        let WorkerEventKind::CallReturned(SLEEP, value) = returned.kind else { panic!() };
        // One that the request for it has interrupted is made again.
        assert!(value == 0 || value == -516, "{value}");
        release(&mut worker, &returned, RETURN);
    }
    for tag in [BEGIN, RETURN] {
        let _unset = does(&mut worker, WorkerRequest::Unset(target.whole(), tag));
    }
    let _forgotten = does(&mut worker, WorkerRequest::ForgetTool);
    deadline::until(|| {
        let _events = worker.poll_events();
        (!target.is_traced()).then_some(())
    });
    target.until_counts(0);
}

#[test]
fn other_system_calls_hold_no_thread() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    // getpid(2), which the target does not make.
    catch(&mut worker, &target, (CallEnd::Begin, BEGIN), &[39]);
    let before = target.count(0);
    deadline::until(|| {
        let events = worker.poll_events();
        assert!(events.is_empty(), "{events:?}");
        (target.count(0) > before + 23).then_some(())
    });
}

#[test]
fn a_procedure_that_is_called_before_a_system_call_does_not_replace_it() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    catch(&mut worker, &target, (CallEnd::Begin, BEGIN), &[SLEEP]);
    let begins = until(&mut worker, BEGIN);
    let numbers = (1..=8).map(Argument::Integer).collect();
    let sum = WorkerRequest::Call(begins.target, CALL, target.at("sum"), numbers);
    let _sent = does(&mut worker, sum);
    let called = until(&mut worker, CALL);
    assert!(matches!(called.kind, WorkerEventKind::Called(87_654_321, _)), "{called:?}");
    catch(&mut worker, &target, (CallEnd::Return, RETURN), &[SLEEP]);
    for tag in [BEGIN, CALL] {
        release(&mut worker, &begins, tag);
    }
    // The thread makes the call from its beginning.
    let again = until(&mut worker, BEGIN);
    assert_eq!(again.kind, WorkerEventKind::CallBegins(SLEEP));
    release(&mut worker, &again, BEGIN);
    assert_eq!(until(&mut worker, RETURN).kind, WorkerEventKind::CallReturned(SLEEP, 0));
}
