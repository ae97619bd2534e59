//! Users and their names, as the host's name service knows them.

use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::ffi::CString;

/// The name of a user; absent where the host knows none, or cannot be asked.
pub fn name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// All groups of a user, the one that he acts with among them.
pub fn groups(uid: u32, gid: u32) -> Vec<u32> {
    let name = name(uid).and_then(|name| CString::new(name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
    groups.map_or_else(|| vec![gid], |all| all.iter().map(|it| it.as_raw()).collect())
}

/// The number of a user, given by name or by number; or why there is none.
pub fn number(written: &str) -> Result<u32, String> {
    if let Ok(number) = written.parse() {
        return Ok(number);
    }
    match User::from_name(written) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("there is no user of that name".into()),
        Err(error) => Err(format!("cannot look that user up: {}", error.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_user_is_a_name_or_a_number() {
        assert_eq!(number("root"), Ok(0));
        assert_eq!(number("4294967294"), Ok(u32::MAX - 1));
        assert_eq!(number("no such user"), Err("there is no user of that name".into()));
        assert!(number("").is_err() && number("-1").is_err());
    }
}
