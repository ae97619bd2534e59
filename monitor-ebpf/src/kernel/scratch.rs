//! Memory of an object that its programs write: for records larger than the 512-byte stack, and
//! for what is learned once.

use core::cell::UnsafeCell;

/// A place that one program at a time uses. The caller of the program sees to that: an iterator
/// runs while its one reader reads.
#[repr(transparent)]
pub struct Scratch<T>(UnsafeCell<T>);

// SAFETY: there are no threads in a program, and one program at a time uses the place.
unsafe impl<T> Sync for Scratch<T> {}

impl<T> Scratch<T> {
    /// A place with this value in it.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The place.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "one program at a time uses the place")]
    pub fn get(&self) -> &mut T {
        // SAFETY: the place lives as long as the object, and nobody else uses it now.
        unsafe { &mut *self.0.get() }
    }
}
