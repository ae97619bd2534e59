//! Whether this process runs in the host's pid namespace or in a container.

use std::{os::unix::fs::MetadataExt, sync::LazyLock};

/// `PROC_PID_INIT_INO` of include/uapi/linux/nsfs.h: inode of the initial pid namespace.
const INITIAL: u64 = 0xEFFF_FFFC;

/// Whether process ids seen here are the host's; true if `/proc` is not mounted. Computed once: a
/// process cannot change its own pid namespace.
pub fn has_host_pids() -> bool {
    static HOSTS: LazyLock<bool> = LazyLock::new(|| {
        std::fs::metadata("/proc/self/ns/pid").map_or(true, |it| it.ino() == INITIAL)
    });
    *HOSTS
}
