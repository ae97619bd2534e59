//! The allocator's memory.

/// Gives freed memory back to the kernel: after loading, the kernel's types have left tens of
/// megabytes of it.
pub fn give_back() {
    // SAFETY: the call has no arguments that point anywhere; it is missing in other C libraries.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
