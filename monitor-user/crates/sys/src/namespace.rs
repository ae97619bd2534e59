//! Whether we live in the host's own pid namespace, or in a container.

use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

/// `PROC_PID_INIT_INO` of include/uapi/linux/nsfs.h: the initial one has this number everywhere.
const INITIAL: u64 = 0xEFFF_FFFC;

/// Whether process ids are the host's here. Without a `/proc` to tell, they are taken to be. A
/// process never changes its own namespace of ids.
pub fn has_host_pids() -> bool {
    static HOSTS: LazyLock<bool> = LazyLock::new(|| {
        std::fs::metadata("/proc/self/ns/pid").map_or(true, |it| it.ino() == INITIAL)
    });
    *HOSTS
}
