//! The code that a called procedure returns to: it stores the result, and rt_sigreturn(2) restores
//! the thread from the signal frame above.
//!
//! In: a process. Out: the address of the code. It is in the unused last bytes of the vDSO, which
//! the kernel maps into every process, in the process's own copy of that page. It stays there:
//! another user worker may have a call that returns to it, and code that is never reached harms
//! nothing.

use super::signal_frame::SIGRETURN;
use crate::process_ref::ProcessRef;
use crate::{ControlError, memory};
use procfs::process::{MMPermissions, MMapPath};

/// Bytes from where a procedure returns to up to the frame; its arguments on the stack are there.
pub const TO_FRAME: u64 = 512;
/// Where the result is, in bytes below where a procedure returns to: it was the return address.
pub const RESULT: u64 = 8;
/// Bytes of the code before its last two instructions, which restore the thread.
pub const RESTORES: u64 = 12;
/// Length of the code.
pub const LENGTH: u64 = CODE.len() as u64;

const CODE: [u8; 19] = [
    0x48,
    0x89,
    0x44,
    0x24,
    0xf8, // mov %rax,-8(%rsp)
    0x48,
    0x81,
    0xc4,
    0x00,
    0x02,
    0x00,
    0x00, // add $512,%rsp
    0xb8,
    SIGRETURN as u8,
    0x00,
    0x00,
    0x00, // mov $15,%eax
    0x0f,
    0x05, // syscall
];
/// Unused bytes at the end of the vDSO.
const UNUSED: usize = 64;

/// Its address; it is written, unless it is there.
pub fn return_code(process: &ProcessRef) -> Result<u64, ControlError> {
    let refusal = || {
        let why = "the process has no vDSO with 64 unused bytes for the return of a call";
        ControlError::Unsupported(why.into())
    };
    let maps = process.maps()?;
    let is_code = |perms: MMPermissions| perms.contains(MMPermissions::EXECUTE);
    let mut maps = maps.into_iter();
    let vdso = maps.find(|it| it.pathname == MMapPath::Vdso && is_code(it.perms));
    let at = vdso.ok_or_else(refusal)?.address.1 - UNUSED as u64;
    let mut unused = [0; UNUSED];
    let found = memory::read(process, at, UNUSED as u64)?;
    if found == unused {
        memory::write(process, at, &CODE)?;
        return Ok(at);
    }
    unused[..CODE.len()].copy_from_slice(&CODE);
    if found == unused { Ok(at) } else { Err(refusal()) }
}
