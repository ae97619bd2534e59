//! The output of ranks, and their input, through a server: `PMIx_IOF_pull` and `PMIx_IOF_push`.
//!
//! In: calls of the library, on its own thread; bytes for a rank. Out: what ranks write, to a
//! receiver; the bytes, to the server.
//!
//! PRRTE 3.0.14 keeps what ranks write until it is pulled, and so nothing is lost between the spawn
//! and the pull. Its heap is damaged by input of 64 KiB at once (`prte_iof_base_write_output`), and
//! it calls no function back where a push waits for that; parts of [`MOST_INPUT`] bytes with a
//! callback work.

use super::abi::{ByteObject, KeyedValue, OpCallback, Proc};
use super::output::{STDERR, STDOUT};
use super::values::slice;
use crate::attribute::ProcName;
use crate::status;
use libloading::os::unix::Symbol;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most bytes of input at once, which is what the buffers of PRRTE are made for
/// (`PRTE_IOF_BASE_MSG_MAX`).
pub const MOST_INPUT: usize = 4096;

/// `pmix_iof_cbfunc_t`.
pub type OutputHandler =
    unsafe extern "C" fn(usize, u16, *mut Proc, *mut ByteObject, *mut KeyedValue, usize);
/// `PMIx_IOF_pull`.
pub type Pull = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const KeyedValue,
    usize,
    u16,
    OutputHandler,
    Option<unsafe extern "C" fn(c_int, usize, *mut c_void)>,
    *mut c_void,
) -> c_int;
/// `PMIx_IOF_push`.
pub type Push = unsafe extern "C" fn(
    *const Proc,
    usize,
    *mut ByteObject,
    *const KeyedValue,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;

/// Gets what ranks write. It is called on the thread of the library, which does nothing else until
/// it returns.
pub trait OutputReceiver: Send + Sync + 'static {
    /// A rank has written this, on its standard output or error.
    fn receive(&self, name: &ProcName, is_error: bool, bytes: &[u8]);
}

/// The receiver: a handler has no argument that could hold it.
static RECEIVER: OnceLock<Arc<dyn OutputReceiver>> = OnceLock::new();

/// Sets the receiver. A process has one.
pub fn set_output_receiver(receiver: Arc<dyn OutputReceiver>) {
    let _second = RECEIVER.set(receiver);
}

/// The handler.
///
/// # Safety
/// The library passes pointers that are valid during the call, and as many bytes as it says.
pub unsafe extern "C" fn handle_output(
    _number: usize,
    channel: u16,
    source: *mut Proc,
    bytes: *mut ByteObject,
    _infos: *mut KeyedValue,
    _count: usize,
) {
    // SAFETY: of the caller.
    let source = unsafe { source.as_ref() };
    // SAFETY: of the caller.
    let bytes = unsafe { bytes.as_ref() };
    let (Some(source), Some(bytes), Some(receiver)) = (source, bytes, RECEIVER.get()) else {
        return;
    };
    // SAFETY: of the caller.
    let bytes = unsafe { slice(bytes.bytes.cast::<u8>(), bytes.size) };
    if !bytes.is_empty() && channel & (STDOUT | STDERR) != 0 {
        receiver.receive(&ProcName::from(source), channel & STDERR != 0, bytes);
    }
}

/// Sends input to ranks, from any thread; nothing, when the tool has ended.
#[derive(Clone)]
pub struct InputSender(pub(super) Arc<Mutex<Option<Symbol<Push>>>>);

/// What the library may read until it has answered.
struct Pushed {
    proc: Proc,
    object: ByteObject,
    /// What the object points to.
    _bytes: Vec<u8>,
    answer: Sender<c_int>,
}

impl InputSender {
    /// Sends bytes to a rank, at most [`MOST_INPUT`]; none of them are the end of its input. Waits
    /// for the answer of the server.
    ///
    /// # Errors
    /// The status of the library: that the rank does not read any longer, or that the server has
    /// ended.
    pub fn send(&self, name: &ProcName, bytes: &[u8]) -> Result<(), c_int> {
        let (answer, answered) = channel();
        let mut bytes = bytes[..bytes.len().min(MOST_INPUT)].to_vec();
        let pointer = if bytes.is_empty() { null_mut() } else { bytes.as_mut_ptr().cast() };
        let object = ByteObject { bytes: pointer, size: bytes.len() };
        let pushed = Pushed { proc: Proc::from(name), object, _bytes: bytes, answer };
        {
            let push = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let push = push.as_ref().ok_or(status::ERROR)?;
            let pushed = Box::into_raw(Box::new(pushed));
            // SAFETY: it is on the heap until the library has answered; no other reference to it is
            // used.
            let proc = unsafe { &raw const (*pushed).proc };
            // SAFETY: as above.
            let object = unsafe { &raw mut (*pushed).object };
            // SAFETY: as above. The tool is there while its function is.
            let status =
                unsafe { push(proc, 1, object, null(), 0, Some(answer_push), pushed.cast()) };
            if status != status::SUCCESS {
                // SAFETY: without success the library does not call back.
                drop(unsafe { Box::from_raw(pushed) });
                let is_done = status == status::OPERATION_SUCCEEDED;
                return if is_done { Ok(()) } else { Err(status) };
            }
        }
        match answered.recv() {
            Ok(status::SUCCESS | status::OPERATION_SUCCEEDED) => Ok(()),
            Ok(status) => Err(status),
            Err(_) => Err(status::ERROR),
        }
    }
}

/// The answer to a push.
///
/// # Safety
/// The pointer is that of a [`Pushed`], which the library gives back once.
unsafe extern "C" fn answer_push(status: c_int, pushed: *mut c_void) {
    // SAFETY: of the caller.
    let pushed = unsafe { Box::from_raw(pushed.cast::<Pushed>()) };
    // The sender waits for it.
    let _waits = pushed.answer.send(status);
}
