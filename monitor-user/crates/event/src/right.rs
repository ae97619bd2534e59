//! What a tool is allowed: whose processes it sees, and whose it may act on.
//!
//! In: what the door found out about who is at the other end. Out: yes, or a refusal that names
//! the right. The system's own rules come on top of this, never instead.

use super::outcome::Refusal;
use monitor_model::sample::Process;
use monitor_model::whose::Eyes;
use monitor_omis::Status;
use monitor_sampling::veil::Veil;

/// What a caller must be allowed, of the objects that he names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it is about no process.
    Nothing,
    /// To see them.
    Observe,
    /// To change them, or look into them as a debugger does.
    Control,
}

/// Whose processes somebody may act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nobody's.
    #[default]
    Nobody,
    /// His own: what a debugger of his could attach to.
    Own,
    /// Everybody's.
    All,
}

/// A session among all sessions of all nodes: the node that its tool is connected to, and the
/// connection there. What is held, is held for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The node.
    pub entry: u32,
    /// The connection.
    pub conn: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// In which session.
    pub session: SessionId,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its process.
    pub pid: u32,
    /// What it sees.
    pub sees: Veil,
    /// On whose processes it may act.
    pub acts: Reach,
}

impl Tool {
    /// One from which nothing is kept.
    pub const fn root(session: SessionId, pid: u32) -> Self {
        Self { session, uid: 0, gid: 0, pid, sees: Veil::None, acts: Reach::All }
    }

    /// Its user and group: whose eyes it has where it sees what is in a process.
    pub const fn eyes(&self) -> Eyes {
        Eyes { uid: self.uid, gid: self.gid }
    }

    /// Whose processes alone it may look into; if absent, everybody's.
    pub fn only(&self) -> Option<Eyes> {
        (self.acts != Reach::All).then(|| self.eyes())
    }

    /// Whether this may be done to the process.
    pub fn may(&self, right: Right, process: &Process) -> Result<(), Refusal> {
        match right {
            Right::Nothing => Ok(()),
            Right::Observe if self.sees.shows(process) => Ok(()),
            Right::Observe => Err(Refusal::new(Status::NO_SUCH_OBJECT, "no such process")),
            Right::Control => self.may_control(process),
        }
    }

    fn may_control(&self, process: &Process) -> Result<(), Refusal> {
        let need = match self.acts {
            Reach::All => return Ok(()),
            Reach::Own if self.eyes().own(process) => return Ok(()),
            Reach::Own => "control-all",
            Reach::Nobody => "control-own",
        };
        let text = format!("user {} is not granted \"{need}\" here; ask root", self.uid);
        Err(Refusal::new(Status::PERMISSION, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField;
    use monitor_model::whose::Eyes;

    fn of(uid: u64) -> Process {
        let mut it = Process { unlent: true, ..Process::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 7);
        it
    }

    #[track_caller]
    fn check(acts: Reach, uid: u64, want: Result<(), &str>) {
        let sees = Veil::Own(Eyes { uid: 7, gid: 7 });
        let tool = Tool { uid: 7, gid: 7, sees, acts, ..Tool::default() };
        let got = tool.may(Right::Control, &of(uid)).map_err(|why| why.text);
        let want = want.map_err(|need| format!("user 7 is not granted \"{need}\" here; ask root"));
        assert_eq!(got, want);
    }

    #[test]
    fn acting_needs_a_grant_that_reaches_that_far() {
        check(Reach::Nobody, 7, Err("control-own"));
        check(Reach::Own, 7, Ok(()));
        check(Reach::Own, 0, Err("control-all"));
        check(Reach::All, 0, Ok(()));
    }

    #[test]
    fn to_see_everybody_is_not_to_act_on_everybody() {
        let sees = Veil::None;
        let tool = Tool { uid: 7, gid: 7, sees, acts: Reach::Own, ..Tool::default() };
        assert!(tool.may(Right::Control, &of(7)).is_ok());
        assert!(tool.may(Right::Control, &of(0)).is_err());
    }
}
