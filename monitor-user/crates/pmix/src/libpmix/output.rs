//! The output of ranks for tools: `PMIx_server_IOF_deliver`.

use super::abi::{ByteObject, KeyedValue, OpCallback, Proc};
use crate::attribute::ProcName;
use crate::status;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// `PMIX_FWD_STDOUT_CHANNEL`.
pub const STDOUT: u16 = 2;
/// `PMIX_FWD_STDERR_CHANNEL`.
pub const STDERR: u16 = 4;

/// `PMIx_server_IOF_deliver`.
pub type Deliver = unsafe extern "C" fn(
    *const Proc,
    u16,
    *const ByteObject,
    *const KeyedValue,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;

/// Gives output to the library, from any thread but its own, while the server is there.
#[derive(Clone, Copy, Debug)]
pub struct OutputSender(pub(super) Deliver);

impl OutputSender {
    /// Sends what a rank has written to the tools that have asked for it; returns when the library
    /// has it.
    ///
    /// # Errors
    /// The status of the library.
    pub fn send(self, name: &ProcName, is_error: bool, bytes: &[u8]) -> Result<(), c_int> {
        let proc = Proc::from(name);
        let bytes = ByteObject { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        let channel = if is_error { STDERR } else { STDOUT };
        let (source, object) = (&raw const proc, &raw const bytes);
        // SAFETY: all of it lives until the function returns, which is when it is done, without a
        // callback; the library only reads it.
        match unsafe { (self.0)(source, channel, object, null(), 0, None, null_mut()) } {
            status::SUCCESS | status::OPERATION_SUCCEEDED => Ok(()),
            status => Err(status),
        }
    }
}
