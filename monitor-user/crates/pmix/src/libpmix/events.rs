//! The end of a handler of events, of a tool and of a host.

use super::abi::HandlerDone;
use crate::status;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Says to the library that a handler has done all that its event needs, without results.
///
/// # Safety
/// The function and its data are those that the library gave to the handler; it is called once.
pub unsafe fn complete(done: HandlerDone, data: *mut c_void) {
    if let Some(done) = done {
        // SAFETY: of the caller; there are no results.
        unsafe { done(status::ACTION_COMPLETE, null_mut(), 0, None, null_mut(), data) };
    }
}
