//! Events that the library raises for the host alone: a window without a heartbeat, and connections
//! that are lost.
//!
//! In: calls of the library, on its own thread. Out: upcalls. The library reports all connections
//! that are lost in a short time as one event: its source is the first process, and the others are
//! attributes of it (`PMIX_REPORT_EVENT`, 4.2.2 and 5.0.11).

use super::abi::{HandlerDone, KeyedValue, Proc};
use super::events::complete;
use super::heartbeat;
use super::queue::send;
use super::values::read_infos;
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::status;
use crate::upcall::Upcall;
use std::ffi::{c_int, c_void};

/// `PMIX_PROCID`: one more process whose connection is lost.
const ONE_MORE: &str = "pmix.procid";
/// `PMIX_EVENT_AFFECTED_PROC`: the library gives none with an alert about heartbeats.
const AFFECTED: &str = "pmix.evproc";

/// The handler.
///
/// # Safety
/// As the library calls it; it must be called back once.
pub unsafe extern "C" fn raised(
    _handler: usize,
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
    if let Some(name) = unsafe { source.as_ref() }.map(ProcName::from) {
        // SAFETY: of the caller.
        let attributes = unsafe { read_infos(infos, count) };
        match code {
            // The alert of the host itself, to clients, comes here as well.
            status::HEARTBEAT_ALERT if find(&attributes, AFFECTED).is_some() => {}
            status::HEARTBEAT_ALERT => heartbeat::window_was_empty(&name),
            status::LOST_CONNECTION => {
                for name in lost(name, attributes) {
                    send(Upcall::Left(name));
                }
            }
            _ => {}
        }
    }
    // SAFETY: of the caller, once.
    unsafe { complete(done, data) };
}

/// The processes of an event of lost connections.
fn lost(first: ProcName, attributes: Vec<Attribute>) -> Vec<ProcName> {
    let others = attributes.into_iter().filter_map(|it| match it.value {
        Datum::Proc(name) if it.key == ONE_MORE => Some(name),
        _ => None,
    });
    std::iter::once(first).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_lost_connections_has_all_of_their_processes() {
        let name = |nspace: &str| ProcName { nspace: nspace.to_owned(), rank: 0 };
        let attributes = vec![
            Attribute::new(ONE_MORE, Datum::Proc(name("third"))),
            Attribute::new(ONE_MORE, Datum::Proc(name("second"))),
            Attribute::new(AFFECTED, Datum::Proc(name("another"))),
        ];
        assert_eq!(lost(name("first"), attributes), ["first", "third", "second"].map(name));
        assert_eq!(lost(name("first"), Vec::new()), [name("first")]);
    }
}
