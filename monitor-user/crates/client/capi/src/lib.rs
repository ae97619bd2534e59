//! `libomis.so`: the interface procedures of OMIS 1.0 (5.4), declared in `include/omis.h`.
//!
//! In: requests as C strings. Out: replies as strings that the caller frees. All calls of a process
//! share one session with the monitor of its node; a process made by fork(2) gets its own. A C
//! binding of `monitor_client::tool`.
#![allow(unsafe_code, reason = "C strings and pointers of the caller")]

use monitor_client::{Error, tool::Tool};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The callback for replies, with the caller's argument.
type Callback = extern "C" fn(reply: *mut c_char, param: *mut c_void);

/// The session of this process, with its process id.
static SESSION: Mutex<Option<(u32, Arc<Tool>)>> = Mutex::new(None);

/// The caller's argument, moved to the reader thread.
struct CallbackArg(*mut c_void);

// SAFETY: it is never dereferenced here; the header documents its use on another thread.
unsafe impl Send for CallbackArg {}

/// Sends a request, waits for its reply, and returns it; the caller frees it with free(3). A
/// failure is a reply too: `error` with a status. NULL if there is no memory.
///
/// # Safety
///
/// `request` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OMIS_request_block(request: *const c_char) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    let line = unsafe { text(request) };
    let reply = line.and_then(|line| session()?.request_block(&line));
    allocated(&reply.unwrap_or_else(|error| refusal(&error)))
}

/// Sends a request and returns; `callback` is called with each of its replies, which it frees.
/// Returns 0, or -1 if it could not be sent: then `callback` has been called once with the reason.
///
/// # Safety
///
/// `request` is a string that ends with a zero byte; `param` may be used by another thread while
/// replies arrive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OMIS_request(
    request: *const c_char,
    callback: Callback,
    param: *mut c_void,
) -> c_int {
    let on_reply = {
        let param = CallbackArg(param);
        move |reply: &str| call(callback, allocated(reply), &param)
    };
    // SAFETY: guaranteed by the caller.
    let line = unsafe { text(request) };
    match line.and_then(|line| session()?.request(&line, on_reply)) {
        Ok(()) => 0,
        Err(error) => {
            callback(allocated(&refusal(&error)), param);
            -1
        }
    }
}

fn call(callback: Callback, reply: *mut c_char, param: &CallbackArg) {
    callback(reply, param.0);
}

/// The text of a C string.
///
/// # Safety
///
/// It ends with a zero byte.
unsafe fn text(string: *const c_char) -> Result<String, Error> {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { CStr::from_ptr(string) };
    let text = bytes.to_str().map(str::to_owned);
    text.map_err(|_| Error::InvalidRequest { why: "it is not UTF-8" })
}

/// The session of this process, opened at the first call, and again after it was lost.
fn session() -> Result<Arc<Tool>, Error> {
    let mut held = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    if let Some((of, tool)) = held.take() {
        if of == own && !tool.is_closed() {
            *held = Some((of, Arc::clone(&tool)));
            return Ok(tool);
        }
        if of != own {
            // The parent's session: its reader thread is not in this process. Dropping it would
            // shut down the parent's socket.
            std::mem::forget(tool);
        }
    }
    let tool = Arc::new(Tool::connect()?);
    *held = Some((own, Arc::clone(&tool)));
    Ok(tool)
}

/// A local failure as a reply: 201 if the node does not answer, 100 for an invalid request.
fn refusal(error: &Error) -> String {
    let status = if error.is_transient() { 201 } else { 100 };
    let text = error.to_string().replace(['"', '\\'], "'");
    format!("0 [] error({status},0,\"{text}\")")
}

/// A copy that free(3) can free; NULL if there is no memory.
fn allocated(text: &str) -> *mut c_char {
    // A reply has no zero byte: strings are escaped.
    let Ok(text) = CString::new(text) else { return null_mut() };
    // SAFETY: `text` is a valid C string.
    unsafe { libc::strdup(text.as_ptr()) }
}
