//! The access policy: from the credentials of a peer to its rights.
//!
//! In: the peer, what `/proc` hides from users, what the administrator grants. Out: whether the
//! peer may send requests, which processes it sees and which it may control. Reads no
//! configuration and no socket.

use monitor_event::right::ControlGrant;
use monitor_model::Credentials;
use monitor_sampling::visibility::Visibility;
use std::fmt;

/// A right that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Send requests, and see what `/proc` would show.
    ObserveOwn,
    /// See all processes in full.
    ObserveAll,
    /// Control the user's own processes.
    ControlOwn,
    /// Control all processes.
    ControlAll,
}

/// A user or group that has a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// All users.
    AllUsers,
    /// A user, by uid.
    User(u32),
    /// The members of a group, by gid.
    Group(u32),
}

impl Grantee {
    /// Whether it is this user, or a group that the user is in.
    pub fn includes(&self, uid: u32, is_in: impl Fn(u32) -> bool) -> bool {
        match *self {
            Self::AllUsers => true,
            Self::User(user) => user == uid,
            Self::Group(gid) => is_in(gid),
        }
    }
}

impl fmt::Display for Grantee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllUsers => write!(out, "*"),
            Self::User(uid) => write!(out, "{uid}"),
            Self::Group(gid) => write!(out, "@{gid}"),
        }
    }
}

/// The grantees of each right, in the order of [`Class`].
pub type Grants = [Vec<Grantee>; 4];

/// The default: all users may observe, and no user has a further right.
pub fn default_grants() -> Grants {
    [vec![Grantee::AllUsers], Vec::new(), Vec::new(), Vec::new()]
}

/// What `/proc` hides from users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hidden {
    /// Only the private fields of other users' processes.
    #[default]
    Nothing,
    /// Other users' processes (`hidepid`), except from a group.
    Others {
        /// The mount option `gid=`.
        except: Option<u32>,
    },
}

/// The credentials of the peer of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its process.
    pub pid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The policy of a daemon.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What `/proc` hides.
    pub hidden: Hidden,
    /// The rights that the administrator grants.
    pub grants: Grants,
}

impl Policy {
    /// Whether the peer has this right. Root has every right.
    pub fn grants(&self, peer: &Peer, class: Class) -> bool {
        let is_peer = |it: &Grantee| it.includes(peer.uid, |gid| peer.in_group(gid));
        peer.uid == 0 || self.grants[class as usize].iter().any(is_peer)
    }

    /// Which processes the peer may control.
    pub fn control_grant(&self, peer: &Peer) -> ControlGrant {
        match (self.grants(peer, Class::ControlAll), self.grants(peer, Class::ControlOwn)) {
            (true, _) => ControlGrant::All,
            (false, true) => ControlGrant::Own,
            (false, false) => ControlGrant::None,
        }
    }

    /// Which processes the peer sees.
    pub fn visibility(&self, peer: &Peer) -> Visibility {
        if self.grants(peer, Class::ObserveAll) {
            return Visibility::All;
        }
        let credentials = Credentials { uid: peer.uid, gid: peer.gid };
        match self.hidden {
            Hidden::Others { except } if !except.is_some_and(|gid| peer.in_group(gid)) => {
                Visibility::OwnOnly(credentials)
            }
            _ => Visibility::OwnInFull(credentials),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Credentials = Credentials { uid: 7, gid: 70 };

    fn alice() -> Peer {
        Peer { uid: 7, gid: 70, pid: 1, groups: vec![71, 72] }
    }

    #[track_caller]
    fn check(hidden: Hidden, all: &[Grantee], want: Visibility) {
        let mut grants = default_grants();
        grants[Class::ObserveAll as usize] = all.to_vec();
        assert_eq!(Policy { hidden, grants }.visibility(&alice()), want);
    }

    #[test]
    fn a_user_sees_own_processes_and_public_fields_of_others() {
        check(Hidden::Nothing, &[], Visibility::OwnInFull(ALICE));
        check(
            Hidden::Nothing,
            &[Grantee::User(8), Grantee::Group(80)],
            Visibility::OwnInFull(ALICE),
        );
    }

    #[test]
    fn a_grant_to_the_user_or_one_of_its_groups_shows_all() {
        for grantee in [Grantee::User(7), Grantee::Group(70), Grantee::Group(72), Grantee::AllUsers]
        {
            check(Hidden::Others { except: None }, &[grantee], Visibility::All);
        }
    }

    #[test]
    fn with_hidepid_only_the_group_of_the_mount_sees_others() {
        check(Hidden::Others { except: None }, &[], Visibility::OwnOnly(ALICE));
        check(Hidden::Others { except: Some(80) }, &[], Visibility::OwnOnly(ALICE));
        check(Hidden::Others { except: Some(71) }, &[], Visibility::OwnInFull(ALICE));
    }

    #[test]
    fn control_is_granted_separately() {
        let grant_of = |own: &[Grantee], all: &[Grantee]| {
            let grants = [vec![Grantee::AllUsers], vec![], own.to_vec(), all.to_vec()];
            Policy { hidden: Hidden::Nothing, grants }.control_grant(&alice())
        };
        assert_eq!(grant_of(&[], &[]), ControlGrant::None);
        assert_eq!(grant_of(&[Grantee::User(7)], &[]), ControlGrant::Own);
        assert_eq!(grant_of(&[], &[Grantee::Group(70)]), ControlGrant::All);
    }

    #[test]
    fn root_has_every_right() {
        let grants = [const { Vec::new() }; 4];
        let policy = Policy { hidden: Hidden::Others { except: None }, grants };
        assert_eq!(policy.visibility(&Peer::default()), Visibility::All);
        assert!(policy.grants(&Peer::default(), Class::ObserveOwn));
        assert!(!policy.grants(&alice(), Class::ObserveOwn));
    }
}
