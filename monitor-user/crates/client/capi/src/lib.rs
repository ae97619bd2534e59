//! `libomis.so`: the interface procedures of OMIS 1.0 (5.4), as `include/omis.h` has them.
//!
//! In: requests as C strings. Out: replies as strings that the caller frees. All calls of a process
//! share one session with the monitor of its node; a process made by fork(2) gets its own.
//! What `monitor_client::tool` does is only dressed in C here.
#![allow(unsafe_code, reason = "what C hands over is taken on its word")]

use monitor_client::Error;
use monitor_client::tool::Tool;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// What is called with each reply, and with the argument that was given along.
type Callback = extern "C" fn(reply: *mut c_char, param: *mut c_void);

/// The session of this process, and the process that it is of.
static SESSION: Mutex<Option<(u32, Arc<Tool>)>> = Mutex::new(None);

/// An argument of the caller, on its way to the thread that calls back.
struct Param(*mut c_void);

// SAFETY: it is never looked at here; the header says that it is used on another thread.
unsafe impl Send for Param {}

/// Sends a request, waits for its reply, and returns it: free(3) it. A failure is a reply too:
/// `error` with a status. NULL, if there is no memory.
///
/// # Safety
///
/// `request` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OMIS_request_block(request: *const c_char) -> *mut c_char {
    // SAFETY: the caller promises it.
    let line = unsafe { text(request) };
    let reply = line.and_then(|line| session()?.request_block(&line));
    allocated(&reply.unwrap_or_else(|error| refusal(&error)))
}

/// Sends a request and returns; `callback` is called with each of its replies, which it frees.
/// 0, or -1 if it could not be sent: then `callback` has been called once, with the reason.
///
/// # Safety
///
/// `request` is a string that ends with a zero byte; `param` may be used by another thread, for
/// as long as replies come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OMIS_request(
    request: *const c_char,
    callback: Callback,
    param: *mut c_void,
) -> c_int {
    let tell = {
        let param = Param(param);
        move |reply: &str| call(callback, allocated(reply), &param)
    };
    // SAFETY: the caller promises it.
    let line = unsafe { text(request) };
    match line.and_then(|line| session()?.request(&line, tell)) {
        Ok(()) => 0,
        Err(error) => {
            callback(allocated(&refusal(&error)), param);
            -1
        }
    }
}

fn call(callback: Callback, reply: *mut c_char, param: &Param) {
    callback(reply, param.0);
}

/// The text of a C string.
///
/// # Safety
///
/// It ends with a zero byte.
unsafe fn text(string: *const c_char) -> Result<String, Error> {
    // SAFETY: the caller promises it.
    let bytes = unsafe { CStr::from_ptr(string) };
    let text = bytes.to_str().map(str::to_owned);
    text.map_err(|_| Error::Garbled { why: "a request is ASCII".into() })
}

/// The session of this process, made when it is first needed, and anew when it was lost.
fn session() -> Result<Arc<Tool>, Error> {
    let mut held = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    if let Some((of, tool)) = held.take() {
        if of == own && !tool.is_closed() {
            *held = Some((of, Arc::clone(&tool)));
            return Ok(tool);
        }
        if of != own {
            // The parent's: its thread is not in this process, and its socket stays his.
            std::mem::forget(tool);
        }
    }
    let tool = Arc::new(Tool::connect()?);
    *held = Some((own, Arc::clone(&tool)));
    Ok(tool)
}

/// A failure on this side as a reply: 201, the node does not answer; 100, it is no request.
fn refusal(error: &Error) -> String {
    let status = if error.passes() { 201 } else { 100 };
    let text = error.to_string().replace(['"', '\\'], "'");
    format!("0 [] error({status},0,\"{text}\")")
}

/// A copy that free(3) can free.
fn allocated(text: &str) -> *mut c_char {
    // A reply has no zero byte in it: strings are escaped.
    let Ok(text) = CString::new(text) else { return null_mut() };
    // SAFETY: it is a C string; NULL is the answer where there is no memory.
    unsafe { libc::strdup(text.as_ptr()) }
}
