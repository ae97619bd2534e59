//! Users and groups, by name and by number, from the host's name service (getpwnam(3)).
//!
//! In: a name or a number. Out: the other of the two, or the groups of a user. Nothing is cached.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// The name of a user; absent if the host does not know the user or the lookup fails.
pub fn name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// The primary group of a user; absent if the host does not know the user or the lookup fails.
pub fn primary_group(uid: u32) -> Option<u32> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.gid.as_raw())
}

/// The name of a group; absent if the host does not know the group or the lookup fails.
pub fn group_name(gid: u32) -> Option<String> {
    Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name)
}

/// All groups of a user, including the primary group `gid`.
pub fn groups(uid: u32, gid: u32) -> Vec<u32> {
    let name = name(uid).and_then(|name| CString::new(name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
    groups.map_or_else(|| vec![gid], |all| all.iter().map(|it| it.as_raw()).collect())
}

/// The number of a user, given by name or number.
///
/// # Errors
///
/// The message says that the user does not exist, or why the lookup failed.
pub fn uid(name: &str) -> Result<u32, String> {
    number("user", name, |name| Ok(User::from_name(name)?.map(|user| user.uid.as_raw())))
}

/// The number of a group, given by name or number.
///
/// # Errors
///
/// The message says that the group does not exist, or why the lookup failed.
pub fn gid(name: &str) -> Result<u32, String> {
    number("group", name, |name| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())))
}

fn number(
    kind: &str,
    name: &str,
    look_up: fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match look_up(name) {
        Ok(found) => found.ok_or_else(|| format!("no {kind} {name:?} on this host")),
        Err(error) => Err(format!("cannot look up {kind} {name:?}: {}", error.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::uid;

    #[test]
    fn a_user_is_a_name_or_a_number() {
        assert_eq!(uid("root"), Ok(0));
        assert_eq!(uid("4294967294"), Ok(u32::MAX - 1));
        assert_eq!(uid("no such user"), Err("no user \"no such user\" on this host".into()));
        assert!(uid("").is_err() && uid("-1").is_err());
    }
}
