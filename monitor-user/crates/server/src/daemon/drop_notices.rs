//! Notices of event replies that were dropped because a client did not read.
//!
//! In: event replies, and outboxes that may be full. Out: the replies; or, as soon as there is
//! room again, a line with the number of dropped replies, before any later reply.

use crate::outbox::Outbox;
use monitor_model::Ns;
use monitor_omis::Status;
use monitor_protocol::Conn;
use std::{collections::HashMap, sync::Arc};

/// The number of dropped replies of each connection.
#[derive(Default)]
pub struct DropNotices {
    n_dropped: HashMap<Conn, u64>,
    /// When the outboxes were last checked for room.
    checked: Ns,
}

impl DropNotices {
    /// Queues a line, or counts it as dropped.
    pub fn send(&mut self, conn: Conn, outbox: &Outbox, line: Vec<u8>, now: Ns) {
        if self.send_notice(conn, outbox) && outbox.try_push(line) {
            return;
        }
        if self.n_dropped.is_empty() {
            self.checked = now;
        }
        *self.n_dropped.entry(conn).or_default() += 1;
    }

    /// Sends the notices that have room now.
    pub fn retry(&mut self, now: Ns, outboxes: &HashMap<Conn, Arc<Outbox>>) {
        self.checked = now;
        let waiting: Vec<Conn> = self.n_dropped.keys().copied().collect();
        for conn in waiting {
            if let Some(outbox) = outboxes.get(&conn) {
                let _ = self.send_notice(conn, outbox);
            }
        }
    }

    /// When to retry, if `pause` passes between two tries.
    pub fn due(&self, pause: Ns) -> Option<Ns> {
        (!self.n_dropped.is_empty()).then(|| Ns(self.checked.0.saturating_add(pause.0)))
    }

    /// Removes a closed connection.
    pub fn forget(&mut self, conn: Conn) {
        let _ = self.n_dropped.remove(&conn);
    }

    /// Sends the notice of a connection, if there is one. True if no notice is left.
    fn send_notice(&mut self, conn: Conn, outbox: &Outbox) -> bool {
        let Some(n_missed) = self.n_dropped.get(&conn) else { return true };
        let Status(lost) = Status::LOST;
        let text = "replies at events found no room and were dropped; read faster";
        let is_sent = outbox.try_push(format!("0 [] error({lost},{n_missed},\"{text}\")\n").into());
        if is_sent {
            self.forget(conn);
        }
        is_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(outbox: &Outbox) -> String {
        String::from_utf8(outbox.next().await.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn the_notice_comes_before_the_next_reply() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (outbox, mut notices) = (Outbox::new(1), DropNotices::default());
            for line in ["a\n", "b\n", "c\n"] {
                notices.send(7, &outbox, line.into(), Ns(5));
            }
            assert_eq!(notices.due(Ns(10)), Some(Ns(15)));
            assert_eq!(next(&outbox).await, "a\n");
            notices.retry(Ns(20), &HashMap::from([(7, Arc::new(Outbox::new(1)))]));
            assert_eq!(notices.due(Ns(10)), None);
        });
    }

    #[test]
    fn the_number_of_dropped_replies_is_exact() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (outbox, mut notices) = (Outbox::new(1), DropNotices::default());
            (0..24).for_each(|_| notices.send(7, &outbox, b"a\n".to_vec(), Ns(5)));
            assert_eq!(next(&outbox).await, "a\n");
            notices.send(7, &outbox, b"b\n".to_vec(), Ns(6));
            let text = "replies at events found no room and were dropped; read faster";
            assert_eq!(next(&outbox).await, format!("0 [] error(407,23,\"{text}\")\n"));
            // The notice takes the room of `b`.
            assert_eq!(notices.n_dropped[&7], 1);
        });
    }
}
