//! What replies are as an exit code: the worst of them.

use super::super::exit::Exit;
use monitor_omis::{Reply, Status};

/// What was replied so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// The first answer that was no plain success.
    worst: Option<Status>,
}

impl Verdict {
    /// Takes a reply in.
    pub fn take(&mut self, reply: &Reply) {
        let status = reply.status();
        if status != Status::OK && self.worst.is_none_or(|worst| worst.is_success()) {
            self.worst = Some(status);
        }
    }

    /// The exit code.
    pub const fn exit(self) -> Exit {
        match self.worst {
            None | Some(Status::OK_DEGRADED) => Exit::Ok,
            Some(status) => exit(status),
        }
    }
}

const fn exit(status: Status) -> Exit {
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
        let mut verdict = Verdict::default();
        for line in lines {
            verdict.take(&parse::reply(line.as_bytes()).unwrap());
        }
        assert_eq!(verdict.exit(), want);
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
