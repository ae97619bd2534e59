//! Memory of this process: allocator settings, the limit of locked memory, resident sizes.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Bytes that stay with this process when they are freed: the memory of a reading is that of the
/// next one. Mapped again for each, its page faults were up to 40 % of the cost.
#[cfg(target_env = "gnu")]
const KEPT_FREE: libc::c_int = 4 << 20;
/// Larger blocks are mapped, and returned when they are freed (`DEFAULT_MMAP_THRESHOLD_MAX` of
/// glibc's malloc).
#[cfg(target_env = "gnu")]
const MAPPED: libc::c_int = 32 << 20;

/// Makes all threads allocate from one heap, so that memory freed by a short-lived thread can be
/// reused, and keeps what a reading frees for the next one. Existing heaps are not merged.
pub fn use_one_heap() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, MAPPED),
        (libc::M_TRIM_THRESHOLD, KEPT_FREE),
    ] {
        // SAFETY: mallopt(3) takes two integers; other C libraries lack it.
        let _ = unsafe { libc::mallopt(option, value) };
    }
}

/// Returns freed memory to the kernel: parsing the kernel's BTF leaves tens of megabytes of it.
pub fn trim_heap() {
    // SAFETY: the call takes no pointers; other C libraries lack it.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process in bytes; `None` if `/proc` is not mounted.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Peak resident memory of this process in bytes, since start or the last `reset_peak`.
pub fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Whether BPF maps count against the limit of locked memory: before 5.11. Newer kernels account
/// them to the cgroup.
pub fn memlock_limits_maps() -> bool {
    version(&rustix::system::uname().release().to_string_lossy()) < (5, 11)
}

/// Removes the limit of locked memory if BPF maps count against it.
pub fn raise_memlock_limit() {
    if !memlock_limits_maps() {
        return;
    }
    let unlimited = Rlimit { current: None, maximum: None };
    // Without the privilege, creating the maps fails next and reports the error.
    let _ = setrlimit(Resource::Memlock, unlimited);
}

/// Major and minor version of a kernel release.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// Resets the peak resident size of this process (proc_pid_clear_refs(5)). A program that it starts
/// inherits the peak, because it shares our memory until it executes.
pub fn reset_peak() {
    // A kernel that lacks it only reports a larger peak.
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
