//! Events that a tool handles: that jobs end, and that the server does.
//!
//! In: calls of the library, on its own thread. Out: events in a queue.

use super::abi::{HandlerDone, KeyedValue, Proc};
use super::events::complete;
use super::values::read_infos;
use crate::attribute::{Attribute, Datum, find};
use crate::status;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::mpsc::Sender;

/// What happens to jobs of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    /// A job has ended: its namespace, and its exit code as far as the server says it.
    Ended(String, Option<i32>),
    /// The server has ended, or the connection to it.
    Lost,
    /// The user ends the job; not of the library.
    Interrupted,
}

/// The queue: a handler has no argument that could hold it.
static RECEIVER: OnceLock<Sender<ToolEvent>> = OnceLock::new();

/// Sets the queue. A process has one.
pub fn set_receiver(receiver: Sender<ToolEvent>) {
    let _second = RECEIVER.set(receiver);
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
    let event = match code {
        status::JOB_END => {
            let nspace = match find(&attributes, "pmix.evproc") {
                Some(Datum::Proc(name)) => name.nspace.clone(),
                _ => source.map(|it| it.nspace).unwrap_or_default(),
            };
            ToolEvent::Ended(nspace, exit_code(&attributes))
        }
        _ => ToolEvent::Lost,
    };
    if let Some(receiver) = RECEIVER.get() {
        // The tool ends already, if this fails.
        let _ended = receiver.send(event);
    }
    // SAFETY: of the caller, once.
    unsafe { complete(done, data) };
}

/// The exit code of a job: that of the first rank that failed; without one, 0 or 1 by its status.
fn exit_code(attributes: &[Attribute]) -> Option<i32> {
    let number = |key| match find(attributes, key) {
        // A number of 32 bits, which may be negative.
        Some(Datum::Number(_, word)) => {
            u32::try_from(word & u64::from(u32::MAX)).ok().map(u32::cast_signed)
        }
        _ => None,
    };
    let failed = |it: i32| i32::from(it != status::SUCCESS);
    number("pmix.exit.code").or_else(|| number("pmix.job.term.status").map(failed))
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
        assert_eq!(of("pmix.job.term.status", -187), Some(1));
        assert_eq!(exit_code(&[]), None);
    }
}
