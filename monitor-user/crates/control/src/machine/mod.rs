//! The architecture-dependent part: registers, their numbers, calling conventions.
//!
//! In: a traced, stopped thread. Out: its registers by the DWARF numbers of the psABI. Another
//! architecture is another file with the same functions.

#[cfg(target_arch = "x86_64")]
mod call;
#[cfg(target_arch = "x86_64")]
mod debug;
#[cfg(target_arch = "x86_64")]
mod float;
#[cfg(target_arch = "x86_64")]
mod restartable;
#[cfg(target_arch = "x86_64")]
mod return_code;
#[cfg(target_arch = "x86_64")]
mod signal_frame;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use {call::*, debug::*, float::*, restartable::*, x86_64::*};
