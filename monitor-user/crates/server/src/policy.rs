//! Who may what: from who the kernel says is at the other end, to what is kept from him.
//!
//! In: the peer, what `/proc` keeps from users here, what the administrator grants. Out: whether
//! he may ask at all, and through which veil he sees. Reads no configuration and no socket.

use monitor_event::right::Reach;
use monitor_model::whose::Eyes;
use monitor_sampling::veil::Veil;
use std::fmt;

/// What can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// To ask at all, and see what `/proc` would show.
    ObserveOwn,
    /// To see other users' processes in full.
    ObserveAll,
    /// To act on one's own processes.
    ControlOwn,
    /// To act on those of others.
    ControlAll,
}

/// Some users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All of them.
    Everybody,
    /// One, by number.
    User(u32),
    /// Those of a group, by number.
    Group(u32),
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => write!(out, "*"),
            Self::User(uid) => write!(out, "{uid}"),
            Self::Group(gid) => write!(out, "@{gid}"),
        }
    }
}

/// Who has which class, in the order of `Class`.
pub type Grants = [Vec<Who>; 4];

/// Everybody may ask, and nobody is granted more.
pub fn everybody() -> Grants {
    [vec![Who::Everybody], Vec::new(), Vec::new(), Vec::new()]
}

/// What `/proc` keeps from users here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hidden {
    /// Nothing but what is another's.
    #[default]
    Nothing,
    /// That others' processes are there (`hidepid`), except from this group.
    Others {
        /// `gid=` of the mount.
        except: Option<u32>,
    },
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// His user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// His process.
    pub pid: u32,
    /// His other groups.
    pub groups: Vec<u32>,
}

impl Peer {
    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The rules of a service.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What `/proc` keeps.
    pub hidden: Hidden,
    /// What the administrator grants.
    pub grants: Grants,
}

impl Policy {
    /// Whether he has this class; root has every one.
    pub fn grants(&self, peer: &Peer, class: Class) -> bool {
        let granted = |who: &Who| match *who {
            Who::Everybody => true,
            Who::User(uid) => peer.uid == uid,
            Who::Group(gid) => peer.in_group(gid),
        };
        peer.uid == 0 || self.grants[class as usize].iter().any(granted)
    }

    /// Whose processes he may act on.
    pub fn reach(&self, peer: &Peer) -> Reach {
        match (self.grants(peer, Class::ControlAll), self.grants(peer, Class::ControlOwn)) {
            (true, _) => Reach::All,
            (false, true) => Reach::Own,
            (false, false) => Reach::Nobody,
        }
    }

    /// What he sees.
    pub fn veil(&self, peer: &Peer) -> Veil {
        if self.grants(peer, Class::ObserveAll) {
            return Veil::None;
        }
        let eyes = Eyes { uid: peer.uid, gid: peer.gid };
        match self.hidden {
            Hidden::Others { except } if !except.is_some_and(|gid| peer.in_group(gid)) => {
                Veil::Only(eyes)
            }
            _ => Veil::Own(eyes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Eyes = Eyes { uid: 7, gid: 70 };

    fn alice() -> Peer {
        Peer { uid: 7, gid: 70, pid: 1, groups: vec![71, 72] }
    }

    #[track_caller]
    fn check(hidden: Hidden, all: &[Who], want: Veil) {
        let mut grants = everybody();
        grants[Class::ObserveAll as usize] = all.to_vec();
        assert_eq!(Policy { hidden, grants }.veil(&alice()), want);
    }

    #[test]
    fn a_user_sees_his_own_and_of_others_what_is_open() {
        check(Hidden::Nothing, &[], Veil::Own(ALICE));
        check(Hidden::Nothing, &[Who::User(8), Who::Group(80)], Veil::Own(ALICE));
    }

    #[test]
    fn a_grant_to_him_or_to_any_of_his_groups_shows_all() {
        for who in [Who::User(7), Who::Group(70), Who::Group(72), Who::Everybody] {
            check(Hidden::Others { except: None }, &[who], Veil::None);
        }
    }

    #[test]
    fn behind_hidepid_only_the_group_of_the_mount_sees_others() {
        check(Hidden::Others { except: None }, &[], Veil::Only(ALICE));
        check(Hidden::Others { except: Some(80) }, &[], Veil::Only(ALICE));
        check(Hidden::Others { except: Some(71) }, &[], Veil::Own(ALICE));
    }

    #[test]
    fn acting_is_granted_apart_from_seeing() {
        let reach = |own: &[Who], all: &[Who]| {
            let grants = [vec![Who::Everybody], vec![], own.to_vec(), all.to_vec()];
            Policy { hidden: Hidden::Nothing, grants }.reach(&alice())
        };
        assert_eq!(reach(&[], &[]), Reach::Nobody);
        assert_eq!(reach(&[Who::User(7)], &[]), Reach::Own);
        assert_eq!(reach(&[], &[Who::Group(70)]), Reach::All);
    }

    #[test]
    fn root_needs_no_grant() {
        let grants = [const { Vec::new() }; 4];
        let policy = Policy { hidden: Hidden::Others { except: None }, grants };
        assert_eq!(policy.veil(&Peer::default()), Veil::None);
        assert!(policy.grants(&Peer::default(), Class::ObserveOwn));
        assert!(!policy.grants(&alice(), Class::ObserveOwn));
    }
}
