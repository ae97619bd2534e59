//! Static memory that programs write: for records larger than the 512-byte stack, and for values
//! computed once.

use core::cell::UnsafeCell;

/// Memory used by one program at a time, which its caller ensures: an iterator runs while its only
/// reader reads.
#[repr(transparent)]
pub struct Scratch<T>(UnsafeCell<T>);

// SAFETY: there are no threads in a program, and one program at a time uses the memory.
unsafe impl<T> Sync for Scratch<T> {}

impl<T> Scratch<T> {
    /// Memory with an initial value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The memory.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "one program at a time uses the memory")]
    pub fn get(&self) -> &mut T {
        // SAFETY: the memory lives as long as the object, and no other program uses it now.
        unsafe { &mut *self.0.get() }
    }
}
