//! The worst of the replies to requests, as an exit code.

use crate::cli::exit::{Exit, Failure};
use monitor_model::status::{Refusal, Status as CallStatus};
use monitor_omis::{Reply, Status};

/// The worst status so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorstStatus {
    /// The first status that is not a plain success; failures replace warnings.
    worst: Option<Status>,
    /// The first failure of a call.
    of_call: Option<Exit>,
}

impl WorstStatus {
    /// Adds a reply.
    pub fn add(&mut self, reply: &Reply) {
        let status = reply.status();
        if status != Status::OK && self.worst.is_none_or(|worst| worst.is_success()) {
            self.worst = Some(status);
        }
    }

    /// Adds the failure of a call of the socket, by the code of its error.
    pub fn add_call_error(&mut self, code: i32) {
        self.of_call.get_or_insert_with(|| match CallStatus::from_number(code) {
            Some(status) => Failure::from(Refusal::new(status, "")).exit,
            // Those of JSON-RPC: the line is no call.
            None => Exit::Usage,
        });
    }

    /// The exit code.
    pub fn exit(self) -> Exit {
        if let Some(exit) = self.of_call {
            return exit;
        }
        match self.worst {
            None | Some(Status::OK_DEGRADED) => Exit::Ok,
            Some(status) => exit_of_status(status),
        }
    }
}

const fn exit_of_status(status: Status) -> Exit {
    match status {
        Status::PARTIAL | Status::LOST => Exit::Partial,
        Status(100..=199) => Exit::Usage,
        Status::TIMEOUT => Exit::TimedOut,
        Status::NO_SUCH_NODE => Exit::NoTarget,
        Status::PERMISSION => Exit::Denied,
        Status(300..=302 | 304 | 306) => Exit::NoTarget,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::parse;

    #[track_caller]
    fn check(lines: &[&str], want: Exit) {
        let mut worst = WorstStatus::default();
        for line in lines {
            worst.add(&parse::reply(line.as_bytes()).unwrap());
        }
        assert_eq!(worst.exit(), want);
    }

    #[test]
    fn the_error_of_a_call_is_a_failure() {
        let exit = |code| {
            let mut worst = WorstStatus::default();
            worst.add_call_error(code);
            worst.exit()
        };
        assert_eq!(exit(CallStatus::NotFound.number()), Exit::NoTarget);
        assert_eq!(exit(CallStatus::NoPermissions.number()), Exit::Denied);
        assert_eq!(exit(-32601), Exit::Usage);
    }

    #[test]
    fn the_first_failure_decides() {
        check(&["1 [0] stop(0)"], Exit::Ok);
        check(&["1 [0] stop(1)"], Exit::Partial);
        check(&["1 [0] stop(1)", "2 [0] stop(400)", "3 [0] stop(100)"], Exit::Denied);
        check(&["1 [] error(100,5,\"x\")"], Exit::Usage);
        check(&["1 [0] stop(301)"], Exit::NoTarget);
        check(&["1 [0] stop(402)"], Exit::Failed);
    }
}
