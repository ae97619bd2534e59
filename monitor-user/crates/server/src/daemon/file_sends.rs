//! Files that clients send to other nodes, while they are sent.
//!
//! In: tasks, by connection and user. Out: that a user has room for one more. A connection that is
//! closed ends its own.

use monitor_model::Refusal;
use monitor_protocol::Conn;
use std::collections::BTreeMap;
use tokio::task::AbortHandle;

/// Files that one user sends at a time, and those of all.
const USER_SENDS: usize = 4;
const SENDS: usize = 32;

/// All of them.
#[derive(Debug, Default)]
pub struct FileSends {
    by_conn: BTreeMap<Conn, Vec<FileSend>>,
}

#[derive(Debug)]
struct FileSend {
    uid: u32,
    task: AbortHandle,
}

impl FileSends {
    /// Whether a user may send one more.
    ///
    /// # Errors
    ///
    /// It, or all, send as many as they may.
    pub fn check_room(&mut self, uid: u32) -> Result<(), Refusal> {
        self.by_conn.retain(|_, sends| {
            sends.retain(|it| !it.task.is_finished());
            !sends.is_empty()
        });
        let all = || self.by_conn.values().flatten();
        let of_user = all().filter(|it| it.uid == uid).count();
        if of_user < USER_SENDS && all().count() < SENDS {
            return Ok(());
        }
        let why = format!(
            "{of_user} files of user {uid} and {} in all are sent; at most {USER_SENDS} and \
             {SENDS}: try again",
            all().count()
        );
        Err(Refusal::limit(why))
    }

    /// A user sends a file.
    pub fn add(&mut self, conn: Conn, uid: u32, task: AbortHandle) {
        self.by_conn.entry(conn).or_default().push(FileSend { uid, task });
    }

    /// A connection is closed.
    pub fn closed(&mut self, conn: Conn) {
        for send in self.by_conn.remove(&conn).into_iter().flatten() {
            send.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_user_has_a_limit_and_a_closed_connection_sends_nothing() {
        let mut sends = FileSends::default();
        let mut tasks = Vec::new();
        for conn in 0..4 {
            sends.check_room(7).expect("there is room");
            let task = tokio::spawn(pending::<()>());
            sends.add(conn, 7, task.abort_handle());
            tasks.push(task);
        }
        assert!(sends.check_room(7).is_err());
        sends.check_room(8).expect("another user has room");
        sends.closed(2);
        assert!(tasks.remove(2).await.is_err_and(|it| it.is_cancelled()));
        sends.check_room(7).expect("there is room again");
        tasks.into_iter().for_each(|it| it.abort());
    }
}
