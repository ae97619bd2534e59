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

/// Forgets our own highest resident size (proc_pid_clear_refs(5)). A program that we start has it
/// as the highest of its first moment, when it still shares our memory.
pub fn forget_peak() {
    // An old kernel without it only reports a larger peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
