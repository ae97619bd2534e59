//! What of the kernel itself a user may observe: counters of processors, and its log.
//!
//! In: a user, the grants of the configuration, settings of the kernel. Out: yes, or why not. Root,
//! and users with `observe-all`, may; others may what the kernel lets any user.

use super::client::NONE_UID;
use crate::policy::Grantee;
use monitor_ninep::{Errno, FileError, User};
use std::fs;

/// What is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPart {
    /// Counters of processors, for all processes.
    Counters,
    /// The log of the kernel.
    Log,
}

impl KernelPart {
    /// The setting of the kernel, and the largest value with which any user may observe it.
    const fn setting(self) -> (&'static str, i32) {
        match self {
            Self::Counters => ("perf_event_paranoid", 0),
            Self::Log => ("dmesg_restrict", 0),
        }
    }

    /// What it is called.
    const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters of processors",
            Self::Log => "the log of the kernel",
        }
    }

    /// Whether the kernel lets any user observe it.
    fn is_open(self) -> bool {
        let (name, most) = self.setting();
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().parse().is_ok_and(|it: i32| it <= most)
    }
}

/// Users that may observe it whatever the kernel says.
#[derive(Clone, Debug, Default)]
pub struct KernelRights(Vec<Grantee>);

impl KernelRights {
    /// Those of the users and groups with `observe-all`.
    pub const fn new(observe_all: Vec<Grantee>) -> Self {
        Self(observe_all)
    }

    /// Checks that a user may observe a part.
    ///
    /// # Errors
    ///
    /// When it may not; the error says what would let it.
    pub fn check(&self, user: &User, part: KernelPart) -> Result<(), FileError> {
        if self.has_right(user) || part.is_open() {
            return Ok(());
        }
        let (setting, most) = part.setting();
        let why = format!(
            "user {} may not observe {}: it needs observe-all in policy, or kernel.{setting} of at \
             most {most}",
            user.name,
            part.name()
        );
        Err(FileError::new(Errno::Denied, why))
    }

    fn has_right(&self, user: &User) -> bool {
        let is_user = |it: &Grantee| it.includes(user.uid, |gid| user.in_group(gid));
        user.uid == 0 || user.uid != NONE_UID && self.0.iter().any(is_user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_that_of_a_user_or_a_group() {
        let user = |uid| User { uid, gid: 70, groups: vec![71], name: "alice".to_owned() };
        let has =
            |grants: &[Grantee], uid| KernelRights::new(grants.to_vec()).has_right(&user(uid));
        assert!(has(&[], 0) && !has(&[], 7));
        assert!(has(&[Grantee::User(7)], 7) && has(&[Grantee::Group(71)], 7));
        assert!(!has(&[Grantee::User(8), Grantee::Group(8)], 7));
        assert!(has(&[Grantee::AllUsers], 7) && !has(&[Grantee::AllUsers], NONE_UID));
    }
}
