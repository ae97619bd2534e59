//! Why there is no place for a probe, in one line: what, why and what to do.

use std::path::PathBuf;

/// Why a function was not found, or must not be probed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is no more.
    #[error("process {pid} has ended")]
    Gone {
        /// Its number.
        pid: u32,
    },
    /// What was asked for is not the name of a place in code.
    #[error("{written:?} names no function: {want}")]
    Unreadable {
        /// As it was written.
        written: String,
        /// What it should look like.
        want: &'static str,
    },
    /// The kernel refused to open or read something.
    #[error("{call} {}: {source}{}", path.display(), advice(source))]
    File {
        /// The call.
        call: &'static str,
        /// What it was made on.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The file is not what it claims to be.
    #[error("{} does not make sense: {want}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected.
        want: String,
    },
    /// A file of another kind than this monitor knows.
    #[error("{}: {why}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
    /// No file there has it.
    #[error("no function {name} in {place}{hint}")]
    Missing {
        /// The function, or the library.
        name: String,
        /// Where it was looked for.
        place: String,
        /// What may have been meant, or what else can be done; begins with its own separator.
        hint: String,
    },
    /// The file that was named is not there, or not yet.
    #[error("process {pid} has not loaded {library}; it has mapped {mapped}")]
    Unloaded {
        /// The process.
        pid: u32,
        /// The library.
        library: String,
        /// What it has.
        mapped: String,
    },
    /// It is not there to be had.
    #[error("no {what}: {why}")]
    Lacking {
        /// What was asked for.
        what: &'static str,
        /// Why not, and what there is instead.
        why: &'static str,
    },
    /// It changed while it was read, again and again.
    #[error("the queue changes while it is read; stop the process first")]
    Moving,
    /// It is there, and a probe on it would damage the program or tell nothing.
    #[error("no probe at {place}: {why}")]
    Unsafe {
        /// The file and the address in it.
        place: String,
        /// What would happen, and what to do instead.
        why: String,
    },
}

/// What to do about an answer of the kernel.
fn advice(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => "; it needs the rights that ptrace needs",
        _ => "",
    }
}
