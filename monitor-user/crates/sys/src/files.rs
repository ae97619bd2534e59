//! The limit of open files: raised for us, not for the programs that we start.
//!
//! A program that still uses select(2) breaks when it is given descriptors beyond 1,024, which is
//! why soft limits are low. So whoever starts one calls `leave_limit` first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

/// What the limit was before it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard one. Gives the limit that now holds; nothing if there is none.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let _first = BEFORE.get_or_init(|| limit);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // It may be forbidden; then we work with what there is.
        Err(_) => limit.current,
    }
}

/// Starts a program with the limit that we were started with.
pub fn leave_limit(command: &mut Command) {
    if let Some(before) = BEFORE.get().copied() {
        limit(command, before);
    }
}

fn limit(command: &mut Command, limit: Rlimit) {
    let set = move || Ok(setrlimit(Resource::Nofile, limit)?);
    // SAFETY: between fork and exec it makes one system call and touches no lock and no heap.
    let _command = unsafe { command.pre_exec(set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_limit_it_is_given() {
        let mut command = Command::new("sh");
        let mut lower = getrlimit(Resource::Nofile);
        lower.current = Some(77);
        limit(command.args(["-c", "ulimit -Sn"]), lower);
        assert_eq!(command.output().unwrap().stdout, b"77\n");
    }

    #[test]
    fn raising_twice_remembers_the_first() {
        let before = getrlimit(Resource::Nofile).maximum;
        assert_eq!((raise(), raise()), (before, before));
        assert!(BEFORE.get().is_some());
    }
}
