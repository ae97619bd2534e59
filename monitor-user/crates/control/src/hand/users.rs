//! The hands of a node: one for each user, started when it is first needed.
//!
//! In: whose rights an act shall have. Out: his hand, and one descriptor that is readable when any
//! of them has told something.

use super::super::act::{Act, Tool};
use super::{Hand as _, Remote, User};
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Ourselves, also when the file was replaced since.
pub const OWN: &str = "/proc/self/exe";

/// All hands.
pub struct Users {
    /// Which program is a hand.
    program: PathBuf,
    hands: BTreeMap<u32, Remote>,
    /// The process of each, as it is listened to.
    heard: BTreeMap<u32, u32>,
    bell: Option<OwnedFd>,
}

impl Users {
    /// Of this program: ourselves, unless we are one that cannot be a hand.
    pub fn of_program(program: PathBuf) -> Self {
        Self { program, hands: BTreeMap::new(), heard: BTreeMap::new(), bell: None }
    }

    /// Starts the hand of a user, if there is none.
    pub fn ready(&mut self, uid: u32, gid: u32) -> io::Result<()> {
        if self.hands.contains_key(&uid) {
            return Ok(());
        }
        let groups = || monitor_sys::user::groups(uid, gid);
        let own = monitor_sys::rights::own_user();
        let user = (uid != own).then(|| User { uid, gid, groups: groups() });
        let mut hand = Remote::start(&self.program, user)?;
        // One that may not become its user ends before it answers.
        let greeted = hand.act(Tool(0), Act::Forget);
        let need = "the service needs CAP_SETUID and CAP_SETGID for that";
        let _forgotten = greeted.map_err(|_| io::Error::other(need))?;
        let _none = self.hands.insert(uid, hand);
        self.hear(uid);
        Ok(())
    }

    /// The hand of a user, if he has one.
    pub fn of(&mut self, uid: u32) -> Option<&mut Remote> {
        self.hands.get_mut(&uid)
    }

    /// Everybody who has one.
    pub fn all(&self) -> Vec<u32> {
        self.hands.keys().copied().collect()
    }

    /// Readable when any of them has told something.
    pub fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(|bell| bell.as_fd())
    }

    /// Listens to the hand of a user, also to one that took the place of another.
    pub fn hear(&mut self, uid: u32) {
        let Some(hand) = self.hands.get(&uid) else { return };
        if self.heard.insert(uid, hand.pid()) == Some(hand.pid()) {
            return;
        }
        if self.bell.is_none() {
            self.bell = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        if let Some(bell) = &self.bell {
            let data = epoll::EventData::new_u64(u64::from(uid));
            // Without it, what it tells is heard when something else is looked at.
            let _deaf = epoll::add(bell, hand, data, epoll::EventFlags::IN);
        }
    }
}
