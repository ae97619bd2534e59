//! Readers of kernel structures, shared by the programs. BPF target only.
//!
//! A load through a typed kernel pointer is one instruction: the offset is a constant of the
//! loaded program, and a fault reads as zero (the verifier attaches an exception entry).
//! Where the verifier does not know the type any more, `probe` asks the helper instead.

pub mod atomic;
pub mod iter;
pub mod loss;
pub mod packet;
pub mod payload;
pub mod queue;
pub mod request;
pub mod ring;
pub mod rss;
pub mod scratch;
pub mod sock;
pub mod storage;
pub mod table;
pub mod task;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::mem::MaybeUninit;

/// Reads one offset (or another number that the loader sets) as the constant it is.
/// The read is volatile, so that the compiler does not see the value it has in the object.
#[macro_export]
macro_rules! constant {
    ($place:expr) => {
        $crate::kernel::as_loaded(&$place)
    };
}
pub use crate::constant;

/// See [`constant!`].
#[inline(always)]
pub fn as_loaded(place: &u32) -> u32 {
    // SAFETY: a reference is valid and aligned.
    unsafe { core::ptr::read_volatile(place) }
}

/// The same number, of which the verifier knows nothing any more. The one of 6.1 follows branches
/// that cannot be taken with bounds that contradict each other, and then refuses what it must
/// allow; a negation makes it forget.
#[inline(always)]
pub fn forgotten(number: usize) -> usize {
    core::hint::black_box(number.wrapping_neg()).wrapping_neg()
}

/// Loads `T` at `offset` of a structure whose type the verifier knows.
#[inline(always)]
pub fn load<T: Copy>(base: *const u8, offset: u32) -> T {
    let place = base.wrapping_add(offset as usize).cast::<T>();
    // SAFETY: the verifier checks the offset against the structure; a fault reads as zero.
    unsafe { core::ptr::read_volatile(place) }
}

/// Copies `T` from `offset` of any kernel address; zero where it cannot be read.
#[inline(always)]
pub fn probe<T: Copy>(base: *const u8, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let (to, from) = (value.as_mut_ptr().cast(), base.wrapping_add(offset as usize).cast());
    // SAFETY: the helper writes `size_of::<T>()` bytes at most, or zeroes them on a fault.
    unsafe { bpf_probe_read_kernel(to, size_of::<T>() as u32, from) };
    // SAFETY: every `T` used here is made of integers, for which zero is a value.
    unsafe { value.assume_init() }
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
