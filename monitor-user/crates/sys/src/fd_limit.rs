//! The limit of open files: raised for this process, restored for the programs that it starts.
//!
//! A program that uses select(2) breaks with descriptors beyond 1,024, which is why soft limits are
//! low. Code that starts a program calls `restore_in` first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{os::unix::process::CommandExt as _, process::Command, sync::OnceLock};

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Returns the limit now in effect; `None` if unlimited.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let _first = ORIGINAL.get_or_init(|| limit);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // It may be forbidden; the current limit stays in effect.
        Err(_) => limit.current,
    }
}

/// Makes the command start its program with the limit that this process was started with.
pub fn restore_in(command: &mut Command) {
    if let Some(original) = ORIGINAL.get().copied() {
        set_limit(command, original);
    }
}

fn set_limit(command: &mut Command, limit: Rlimit) {
    let set = move || Ok(setrlimit(Resource::Nofile, limit)?);
    // SAFETY: between fork and exec the closure makes one system call and uses no lock and no heap.
    let _command = unsafe { command.pre_exec(set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_with_the_limit_set_for_it() {
        let mut command = Command::new("sh");
        let mut lower = getrlimit(Resource::Nofile);
        lower.current = Some(77);
        set_limit(command.args(["-c", "ulimit -Sn"]), lower);
        assert_eq!(command.output().unwrap().stdout, b"77\n");
    }

    #[test]
    fn raising_twice_keeps_the_original_limit() {
        let before = getrlimit(Resource::Nofile).maximum;
        assert_eq!((raise(), raise()), (before, before));
        assert!(ORIGINAL.get().is_some());
    }
}
