//! What depends on the processor: registers, their numbers, how a procedure is called.
//!
//! In: a stopped thread that we trace. Out: its registers by the DWARF numbers of the processor's
//! psABI. Another processor is another file with the same functions; until it is written, what
//! needs one is refused there.

#[cfg(target_arch = "x86_64")]
mod call;
#[cfg(target_arch = "x86_64")]
mod debug;
#[cfg(target_arch = "x86_64")]
mod float;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use {call::*, debug::*, float::*, x86_64::*};
