//! Where the threads of a process have `errno`, as data: found by `symbols`, read in the kernel.

use serde::{Deserialize, Serialize};

/// The distance of `errno` from the thread pointer, which is the same for all threads of a process.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrnoPlace {
    /// This many bytes.
    Offset(i64),
    /// The content of the word at this address of the process: the dynamic linker writes it when it
    /// relocates the C library.
    Word(u64),
}
