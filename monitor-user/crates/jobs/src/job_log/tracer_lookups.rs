//! How often a reading asks whether a process is traced: each question is a file of `/proc`.
//!
//! In: the user of a process. Out: whether it may be asked about.

use std::collections::BTreeMap;

/// Most processes of which each reading asks whether they are traced: of a job, of a user, and of
/// all jobs together.
pub const ASKED_FOR_TRACER: [usize; 3] = [512, 1024, 4096];

/// How often a reading has asked whether a process is traced.
#[derive(Debug, Default)]
pub struct TracerLookups {
    of_users: BTreeMap<Option<u32>, usize>,
    of_all: usize,
}

impl TracerLookups {
    /// Counts a question about a process of a user; whether it may be asked.
    pub fn add(&mut self, uid: Option<u32>) -> bool {
        let [_, most_of_user, most] = ASKED_FOR_TRACER;
        let of_user = self.of_users.entry(uid).or_default();
        let has_room = *of_user < most_of_user && self.of_all < most;
        if has_room {
            *of_user += 1;
            self.of_all += 1;
        }
        has_room
    }
}
