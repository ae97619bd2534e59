//! Readers of kernel structures, shared by the programs. BPF target only.
//!
//! A load through a typed kernel pointer is one instruction: the offset is a constant of the
//! loaded program, and a fault reads as zero (the verifier attaches an exception entry).
//! Where the verifier does not know the type any more, `probe` asks the helper instead.

pub mod atomic;
pub mod iterator;
pub mod loss;
pub mod queue;
pub mod request;
pub mod ring;
pub mod rss;
pub mod storage;
pub mod table;
pub mod task;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::ffi::c_void;
use core::mem::MaybeUninit;

/// Reads one offset (or another number that the loader sets) as the constant it is.
/// The read is volatile, so that the compiler does not see the value it has in the object.
#[macro_export]
macro_rules! constant {
    ($place:expr) => {
        // SAFETY: the place is a static of this object.
        unsafe { core::ptr::read_volatile(&raw const $place) }
    };
}
pub use crate::constant;

/// Loads `T` at `offset` of a structure whose type the verifier knows.
#[inline(always)]
pub fn load<T: Copy>(base: *const u8, offset: u32) -> T {
    // SAFETY: the verifier checks the offset against the structure; a fault reads as zero.
    unsafe { core::ptr::read_volatile(base.add(offset as usize).cast::<T>()) }
}

/// Copies `T` from `offset` of any kernel address; zero where it cannot be read.
#[inline(always)]
pub fn probe<T: Copy>(base: *const u8, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the helper writes at most `size_of::<T>()` bytes, or zeroes them on a fault;
    // every `T` used here is made of integers.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast::<c_void>(),
            size_of::<T>() as u32,
            base.wrapping_add(offset as usize).cast::<c_void>(),
        );
        value.assume_init()
    }
}

/// The end of every object: no unwinding, and the licence that the helpers ask for.
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
