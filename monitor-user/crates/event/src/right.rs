//! The rights of a tool: which processes it sees, and which it may control.
//!
//! In: the peer's credentials and grants, from the listener. Out: success, or a refusal that names
//! the missing grant. The kernel's own permission checks apply in addition.

use super::Refusal;
use monitor_model::{Credentials, Process};
use monitor_omis::Status;
use monitor_sampling::visibility::Visibility;

/// The right that a service requires for the processes that its caller names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// None: the service is not about processes.
    Nothing,
    /// To see the processes.
    Observe,
    /// To see all of the processes, their events included: what `/proc` shows to their user.
    ObserveInFull,
    /// To change the processes, or read their memory as a debugger does.
    Control,
}

/// The processes that a tool may control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControlGrant {
    /// No process.
    #[default]
    None,
    /// No process: it is a tool of another node, which `cluster.control_from` does not name.
    OtherNode,
    /// Processes of its user: those that a debugger of the user could attach to.
    Own,
    /// Processes of all users.
    All,
}

/// Identity of a session in the cluster: the node that its tool is connected to, and the
/// connection there. Stops and holds belong to one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The node that the tool is connected to.
    pub entry: u32,
    /// The number of the connection.
    pub conn: u64,
}

/// The tool that makes a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// Its session.
    pub session: SessionId,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Its process id.
    pub pid: u32,
    /// The processes and fields that it sees.
    pub visibility: Visibility,
    /// The processes that it may control.
    pub control: ControlGrant,
}

impl Tool {
    /// A tool of root, which sees and controls all processes.
    pub const fn root(session: SessionId, pid: u32) -> Self {
        Self {
            session,
            uid: 0,
            gid: 0,
            pid,
            visibility: Visibility::All,
            control: ControlGrant::All,
        }
    }

    /// Its user and group id.
    pub const fn credentials(&self) -> Credentials {
        Credentials { uid: self.uid, gid: self.gid }
    }

    /// The user whose processes alone it may read inside; `None` for all.
    pub fn restricted_to(&self) -> Option<Credentials> {
        (self.control != ControlGrant::All).then(|| self.credentials())
    }

    /// Whether the tool has this right for a process.
    ///
    /// # Errors
    /// `NO_SUCH_OBJECT` if it does not see the process, `PERMISSION` if a grant is missing.
    pub fn may(&self, right: Right, process: &Process) -> Result<(), Refusal> {
        match right {
            Right::Nothing => Ok(()),
            Right::Observe if self.visibility.shows(process) => Ok(()),
            Right::ObserveInFull if self.visibility.shows_all_of(process) => Ok(()),
            Right::ObserveInFull if self.visibility.shows(process) => {
                let text = format!(
                    "user {} does not observe this process in full: this needs observe-all",
                    self.uid
                );
                Err(Refusal::new(Status::PERMISSION, text))
            }
            Right::Observe | Right::ObserveInFull => {
                Err(Refusal::new(Status::NO_SUCH_OBJECT, "no such process"))
            }
            Right::Control => self.may_control(process),
        }
    }

    /// Whether the tool may start processes.
    ///
    /// # Errors
    /// `PERMISSION`, with what is missing.
    pub fn may_start(&self) -> Result<(), Refusal> {
        if self.control >= ControlGrant::Own { Ok(()) } else { Err(self.denied()) }
    }

    fn may_control(&self, process: &Process) -> Result<(), Refusal> {
        match self.control {
            ControlGrant::All => Ok(()),
            ControlGrant::Own if self.credentials().may_read(process) => Ok(()),
            _ => Err(self.denied()),
        }
    }

    /// The refusal that names what is missing for control.
    fn denied(&self) -> Refusal {
        let granted = |need| format!("user {} is not granted \"{need}\" here; ask root", self.uid);
        let text = match self.control {
            ControlGrant::OtherNode => {
                "users of the sending node may only observe here: root of this node permits more \
                 by naming it in cluster.control_from"
                    .to_owned()
            }
            ControlGrant::None => granted("control-own"),
            ControlGrant::Own | ControlGrant::All => granted("control-all"),
        };
        Refusal::new(Status::PERMISSION, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::credentials::Credentials;
    use monitor_model::field::ProcessField;

    fn process_of(uid: u64) -> Process {
        let mut it = Process { readable_by_owner: true, ..Process::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 7);
        it
    }

    #[track_caller]
    fn check(acts: ControlGrant, uid: u64, want: Result<(), &str>) {
        let sees = Visibility::OwnInFull(Credentials { uid: 7, gid: 7 });
        let tool = Tool { uid: 7, gid: 7, visibility: sees, control: acts, ..Tool::default() };
        let got = tool.may(Right::Control, &process_of(uid)).map_err(|why| why.text);
        let want = want.map_err(|need| format!("user 7 is not granted \"{need}\" here; ask root"));
        assert_eq!(got, want);
    }

    #[test]
    fn events_of_a_process_need_the_right_to_observe_it_in_full() {
        let sees = Visibility::OwnInFull(Credentials { uid: 7, gid: 7 });
        let tool = Tool { uid: 7, gid: 7, visibility: sees, ..Tool::default() };
        let status = |it: &Process| tool.may(Right::ObserveInFull, it).map_err(|why| why.status);
        assert_eq!(status(&process_of(7)), Ok(()));
        assert_eq!(status(&process_of(8)), Err(Status::PERMISSION));
        let set_uid = Process { readable_by_owner: false, ..process_of(7) };
        assert_eq!(status(&set_uid), Err(Status::PERMISSION));
        let hidden = Tool { visibility: Visibility::OwnOnly(tool.credentials()), ..tool };
        let refused = hidden.may(Right::ObserveInFull, &process_of(8)).map_err(|why| why.status);
        assert_eq!(refused, Err(Status::NO_SUCH_OBJECT));
    }

    #[test]
    fn acting_needs_a_grant_that_reaches_that_far() {
        check(ControlGrant::None, 7, Err("control-own"));
        check(ControlGrant::Own, 7, Ok(()));
        check(ControlGrant::Own, 0, Err("control-all"));
        check(ControlGrant::All, 0, Ok(()));
    }

    #[test]
    fn a_tool_of_another_node_learns_which_key_permits_control() {
        let tool = Tool { uid: 7, gid: 7, control: ControlGrant::OtherNode, ..Tool::default() };
        for refused in [tool.may_start(), tool.may(Right::Control, &process_of(7))] {
            let why = refused.expect_err("no control");
            assert_eq!(why.status, Status::PERMISSION);
            assert!(why.text.contains("cluster.control_from"), "{}", why.text);
        }
        assert!(Tool { control: ControlGrant::None, ..tool }.may_start().is_err());
        assert!(Tool { control: ControlGrant::Own, ..tool }.may_start().is_ok());
    }

    #[test]
    fn observing_all_processes_does_not_allow_controlling_them() {
        let sees = Visibility::All;
        let tool = Tool {
            uid: 7,
            gid: 7,
            visibility: sees,
            control: ControlGrant::Own,
            ..Tool::default()
        };
        assert!(tool.may(Right::Control, &process_of(7)).is_ok());
        assert!(tool.may(Right::Control, &process_of(0)).is_err());
    }
}
