//! Users and groups by name or number, wherever this host keeps them: the C library asks.

use nix::unistd::{Group, User};

/// The number of a user.
pub fn user(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("there is no user {name:?} here")),
        Err(why) => Err(format!("user {name:?} cannot be looked up: {why}")),
    }
}

/// The number of a group.
pub fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group {name:?} here")),
        Err(why) => Err(format!("group {name:?} cannot be looked up: {why}")),
    }
}
