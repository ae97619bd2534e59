//! Memory of our own: what the allocator keeps, what may be locked, what was the most.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Has all threads allocate from one heap, so that what a short-lived one leaves can be used, and
/// given back. Heaps that there are already stay as they are.
pub fn share_heap() {
    // SAFETY: mallopt(3) takes two numbers; it is missing in other C libraries.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Gives freed memory back to the kernel: after loading, the kernel's types have left tens of
/// megabytes of it.
pub fn give_back() {
    // SAFETY: the call has no arguments that point anywhere; it is missing in other C libraries.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Our own resident memory in bytes; nothing where `/proc` is not mounted.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Our own highest resident memory in bytes, since it was last forgotten.
pub fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Lifts the limit of locked memory, which BPF maps were charged to before 5.11. Newer kernels
/// charge them to the cgroup, so there nothing is changed.
pub fn lift_lock_limit() {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if version(&release) >= (5, 11) {
        return;
    }
    let unlimited = Rlimit { current: None, maximum: None };
    // Without the privilege for it the maps are refused next, and that is said.
    let _ = setrlimit(Resource::Memlock, unlimited);
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// Forgets our own highest resident size (proc_pid_clear_refs(5)). A program that we start has it
/// as the highest of its first moment, when it still shares our memory.
pub fn forget_peak() {
    // An old kernel without it only reports a larger peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(version("5.10.0-32-amd64"), (5, 10));
        assert_eq!(version("6.18.44"), (6, 18));
        assert_eq!(version("next"), (0, 0));
    }
}
