//! Readers of kernel structures, shared by the BPF programs. BPF target only.
//!
//! A load through a typed kernel pointer is one instruction: the offset is a constant of the
//! loaded program, and a fault reads as zero (the verifier attaches an exception entry).
//! Where the verifier no longer knows the type, `probe` calls a helper instead.

pub mod atomic;
pub mod delivery;
pub mod iter;
pub mod loss;
pub mod packet;
pub mod payload;
pub mod queue;
pub mod released;
pub mod request;
pub mod ring;
pub mod rss;
pub mod scratch;
pub mod sock;
pub mod storage;
pub mod stream;
pub mod table;
pub mod task;
pub mod x86_registers;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::mem::MaybeUninit;

/// Reads one offset (or another number that the loader sets) as the constant it is.
/// The read is volatile, so that the compiler does not use the value in the object file.
#[macro_export]
macro_rules! constant {
    ($number:expr) => {
        $crate::kernel::as_loaded(&$number)
    };
}
pub use crate::constant;

/// See [`constant!`].
#[inline(always)]
pub fn as_loaded(number: &u32) -> u32 {
    // SAFETY: a reference is valid and aligned.
    unsafe { core::ptr::read_volatile(number) }
}

/// The same number, with bounds unknown to the verifier. The verifier of 6.1 follows impossible
/// branches with contradictory bounds, and then refuses valid accesses; a negation discards the
/// bounds.
#[inline(always)]
pub fn without_bounds(number: usize) -> usize {
    core::hint::black_box(number.wrapping_neg()).wrapping_neg()
}

/// Loads `T` at `offset` of a structure whose type the verifier knows.
#[inline(always)]
pub fn load<T: Copy>(base: *const u8, offset: u32) -> T {
    let address = base.wrapping_add(offset as usize).cast::<T>();
    // SAFETY: the verifier checks the offset against the structure; a fault reads as zero.
    unsafe { core::ptr::read_volatile(address) }
}

/// Copies `T` from `offset` of any kernel address; zero if it cannot be read.
#[inline(always)]
pub fn probe<T: Copy>(base: *const u8, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let (to, from) = (value.as_mut_ptr().cast(), base.wrapping_add(offset as usize).cast());
    // SAFETY: the helper writes `size_of::<T>()` bytes at most, or zeroes them on a fault.
    unsafe { bpf_probe_read_kernel(to, size_of::<T>() as u32, from) };
    // SAFETY: every `T` used here is made of integers, for which zero is a value.
    unsafe { value.assume_init() }
}

/// Ends every object: the panic handler, and the licence that the helpers require.
#[macro_export]
macro_rules! object {
    () => {
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {}
        }

        #[unsafe(link_section = "license")]
        #[unsafe(no_mangle)]
        static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
    };
}
