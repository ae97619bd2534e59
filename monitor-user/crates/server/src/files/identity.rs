//! Which user an attach is for.
//!
//! In: what is known of the client of a connection, and the name in Tattach. Out: the user whose
//! rights the attach has: that of the process, or `none`; for root, any that it names; for a client
//! that is no process of this machine, `none` alone.

use super::client::{ClientOrigin, FilesClient, NONE_UID};
use crate::policy::Peer;
use monitor_ninep::{Errno, FileError, User};
use monitor_sys::users;

/// Its name in Tattach.
const NONE: &str = "none";
/// What mount(8) sends for root if no name is given; to root it means `none`.
const UNNAMED_MOUNT: &str = "nobody";

/// The user of an attach by this client.
///
/// # Errors
///
/// When the client may not be that user, or there is none.
pub fn attach_user(client: &FilesClient, named: &str) -> Result<User, FileError> {
    let (peer, own_name) = (&client.peer, client.name.as_str());
    if client.origin != ClientOrigin::Process {
        return match named {
            "" | NONE | UNNAMED_MOUNT => Ok(none()),
            named => {
                let why = format!(
                    "a connection over the network attaches as none, not as {named:?}: its user \
                     is not known; use the Unix socket, also through ssh -L"
                );
                Err(FileError::new(Errno::Denied, why))
            }
        };
    }
    let number = named.strip_prefix('#').unwrap_or(named).parse();
    let is_own = named == own_name || number == Ok(peer.uid);
    match named {
        NONE => Ok(none()),
        "" | UNNAMED_MOUNT if peer.uid == 0 => Ok(none()),
        named if named.is_empty() || is_own => Ok(User {
            uid: peer.uid,
            gid: peer.gid,
            groups: peer.groups.clone(),
            name: own_name.to_owned(),
        }),
        named if peer.uid == 0 => named_by_root(named.strip_prefix('#').unwrap_or(named)),
        named => {
            let why = format!("user {own_name} may not attach as {named:?}: only root may");
            Err(FileError::new(Errno::Denied, why))
        }
    }
}

/// The user that observes what any user may.
fn none() -> User {
    User { uid: NONE_UID, gid: NONE_UID, groups: Vec::new(), name: NONE.to_owned() }
}

/// Another user, with its own groups and no right of root.
fn named_by_root(named: &str) -> Result<User, FileError> {
    let uid = users::uid(named).map_err(|why| FileError::new(Errno::UnknownUser, why))?;
    let gid = users::primary_group(uid).ok_or_else(|| {
        let why = format!("user {named:?} has no entry with its group on this host");
        FileError::new(Errno::UnknownUser, why)
    })?;
    let name = users::name(uid).unwrap_or_else(|| uid.to_string());
    Ok(User { uid, gid, groups: users::groups(uid, gid), name })
}

/// The credentials of connections inside the daemon: those of the user of an attach, and of the
/// process that made the connection.
pub fn user_peer(user: &User, pid: u32) -> Peer {
    Peer { uid: user.uid, gid: user.gid, pid, groups: user.groups.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attach(uid: u32, own_name: &str, named: &str) -> Result<u32, Errno> {
        let peer = Peer { uid, gid: uid, pid: 1, groups: vec![7] };
        attach_user(&FilesClient::process(peer, own_name.to_owned()), named)
            .map(|it| it.uid)
            .map_err(|it| it.errno)
    }

    #[test]
    fn a_user_is_itself_or_none() {
        for named in ["", "alice", "#1000", "1000"] {
            assert_eq!(attach(1000, "alice", named), Ok(1000), "{named:?}");
        }
        assert_eq!(attach(1000, "alice", "none"), Ok(NONE_UID));
        for named in ["root", "#0", "0", "bob", "nobody", "#1001", "#", "-1"] {
            assert_eq!(attach(1000, "alice", named), Err(Errno::Denied), "{named:?}");
        }
    }

    #[test]
    fn root_without_a_name_is_none_and_else_the_user_that_it_names() {
        for named in ["", "none", "nobody"] {
            assert_eq!(attach(0, "root", named), Ok(NONE_UID), "{named:?}");
        }
        assert_eq!(attach(0, "root", "root"), Ok(0));
        assert_eq!(attach(0, "root", "#0"), Ok(0));
        assert_eq!(attach(0, "root", "daemon"), Ok(1));
        assert_eq!(attach(0, "root", "no such user"), Err(Errno::UnknownUser));
        assert_eq!(attach(0, "root", "#4000000000"), Err(Errno::UnknownUser));
    }

    #[test]
    fn a_client_over_the_network_is_none_and_no_user() {
        for origin in [ClientOrigin::Loopback, ClientOrigin::Node] {
            let attach = |named| {
                let user = attach_user(&FilesClient::without_user(origin), named);
                user.map(|it| it.uid).map_err(|it| it.errno)
            };
            for named in ["", "none", "nobody"] {
                assert_eq!(attach(named), Ok(NONE_UID), "{named:?}");
            }
            for named in ["root", "#0", "0", "#4294967295", "daemon"] {
                assert_eq!(attach(named), Err(Errno::Denied), "{named:?}");
            }
        }
    }

    #[test]
    fn a_user_that_root_names_has_its_own_groups_only() {
        let peer = Peer { uid: 0, gid: 0, pid: 1, groups: vec![0, 4242] };
        let client = FilesClient::process(peer, "root".to_owned());
        let user = attach_user(&client, "daemon").expect("a user of every Linux");
        assert!(!user.groups.contains(&4242) && user.gid == 1, "{user:?}");
        assert!(attach_user(&client, "").expect("none").groups.is_empty());
    }
}
