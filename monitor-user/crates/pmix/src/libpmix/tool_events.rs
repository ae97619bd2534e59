//! Events that a tool handles: that ranks wait for a debugger, that jobs end, and that the server
//! does.
//!
//! In: calls of the library, on its own thread. Out: events, to a receiver.

use super::abi::{HandlerDone, KeyedValue, Proc, ReleaseCallback};
use super::events::complete;
use super::values::read_infos;
use crate::attribute::{Attribute, Datum, find};
use crate::status;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// What happens to jobs of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    /// A job has ended: its namespace, and its exit code as far as the server says it, or a
    /// status, which is negative.
    Ended(String, Option<i32>),
    /// All ranks of a job wait for a debugger where they are held: its namespace.
    Waiting(String),
    /// The server has ended, or the connection to it.
    Lost,
    /// The server does not end a job: its status.
    KillRefused(c_int),
    /// The server has answered [`Tool::ask_for_answer`](super::Tool::ask_for_answer).
    Answered,
}

/// What gets events, on the thread of the library.
pub type EventReceiver = Box<dyn Fn(ToolEvent) + Send + Sync>;

/// The receiver: a handler has no argument that could hold it.
static RECEIVER: OnceLock<EventReceiver> = OnceLock::new();

/// Sets the receiver. A process has one.
pub fn set_receiver(receiver: EventReceiver) {
    let _second = RECEIVER.set(receiver);
}

fn send(event: ToolEvent) {
    if let Some(receiver) = RECEIVER.get() {
        receiver(event);
    }
}

/// The handler.
///
/// # Safety
/// The library passes pointers that are valid during the call, and as many elements as it says.
pub unsafe extern "C" fn handle_event(
    _number: usize,
    code: c_int,
    source: *const Proc,
    infos: *mut KeyedValue,
    count: usize,
    _results: *mut KeyedValue,
    _result_count: usize,
    done: HandlerDone,
    data: *mut c_void,
) {
    // SAFETY: of the caller.
    let attributes = unsafe { read_infos(infos, count) };
    // SAFETY: of the caller.
    let source = unsafe { source.as_ref() }.map(crate::attribute::ProcName::from);
    let nspace = match find(&attributes, "pmix.evproc") {
        Some(Datum::Proc(name)) => name.nspace.clone(),
        _ => source.map(|it| it.nspace).unwrap_or_default(),
    };
    let event = match code {
        status::JOB_END => ToolEvent::Ended(nspace, exit_code(&attributes)),
        status::READY_FOR_DEBUG => {
            let named = find(&attributes, "pmix.nspace").and_then(Datum::as_str);
            ToolEvent::Waiting(named.map_or(nspace, str::to_owned))
        }
        _ => ToolEvent::Lost,
    };
    send(event);
    // SAFETY: of the caller, once.
    unsafe { complete(done, data) };
}

/// The answer to a request to end a job.
///
/// # Safety
/// The library passes its own function, with what it is for.
pub unsafe extern "C" fn answer_kill(
    status: c_int,
    _infos: *mut KeyedValue,
    _count: usize,
    _nothing: *mut c_void,
    release: Option<ReleaseCallback>,
    released: *mut c_void,
) {
    if !matches!(status, status::SUCCESS | status::OPERATION_SUCCEEDED) {
        send(ToolEvent::KillRefused(status));
    }
    // SAFETY: of the caller.
    unsafe { release_answer(release, released) };
}

/// The answer to a question whose values are of no interest.
///
/// # Safety
/// As [`answer_kill`].
pub unsafe extern "C" fn answer_question(
    _status: c_int,
    _infos: *mut KeyedValue,
    _count: usize,
    _nothing: *mut c_void,
    release: Option<ReleaseCallback>,
    released: *mut c_void,
) {
    send(ToolEvent::Answered);
    // SAFETY: of the caller.
    unsafe { release_answer(release, released) };
}

/// Gives an answer back to the library.
///
/// # Safety
/// The library has passed both, and this is called once.
unsafe fn release_answer(release: Option<ReleaseCallback>, released: *mut c_void) {
    if let Some(release) = release {
        // SAFETY: of the caller, once.
        unsafe { release(released) };
    }
}

/// The exit code of a job: that of the first rank that failed, or 128 plus its signal, as far as
/// the server says it; a status of PMIx, which is negative, otherwise.
fn exit_code(attributes: &[Attribute]) -> Option<i32> {
    let number = |key| match find(attributes, key) {
        // A number of 32 bits, which may be negative.
        Some(Datum::Number(_, word)) => {
            u32::try_from(word & u64::from(u32::MAX)).ok().map(u32::cast_signed)
        }
        _ => None,
    };
    // PRRTE has the exit code of the rank as the status of the job.
    number("pmix.exit.code").or_else(|| number("pmix.job.term.status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind;

    #[test]
    fn the_exit_code_of_a_job_is_that_of_a_rank_or_of_its_status() {
        let of = |key: &str, number: i32| {
            let word = u64::from(number.cast_unsigned());
            exit_code(&[Attribute::new(key, Datum::Number(kind::INT, word))])
        };
        assert_eq!(of("pmix.exit.code", 3), Some(3));
        assert_eq!(of("pmix.job.term.status", 0), Some(0));
        assert_eq!(of("pmix.job.term.status", -187), Some(-187));
        assert_eq!(of("pmix.job.term.status", 137), Some(137));
        assert_eq!(exit_code(&[]), None);
    }
}
