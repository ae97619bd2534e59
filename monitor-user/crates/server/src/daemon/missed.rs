//! What tools missed because they did not read what they were told.
//!
//! In: lines at events, and the outboxes that may be full. Out: the lines, or a line that says how
//! many are missing as soon as there is room again, before anything that comes later.

use crate::outbox::Outbox;
use monitor_model::id::Ns;
use monitor_omis::Status;
use monitor_protocol::Conn;
use std::collections::HashMap;
use std::sync::Arc;

/// How many each connection missed.
#[derive(Default)]
pub struct Missed {
    n_missed: HashMap<Conn, u64>,
    /// When it was looked last whether there is room again.
    looked: Ns,
}

impl Missed {
    /// Passes a line on, or counts it.
    pub fn pass(&mut self, conn: Conn, outbox: &Outbox, line: Vec<u8>, now: Ns) {
        if self.make_up(conn, outbox) && outbox.tell(line) {
            return;
        }
        if self.n_missed.is_empty() {
            self.looked = now;
        }
        *self.n_missed.entry(conn).or_default() += 1;
    }

    /// Tells whoever reads again what he missed.
    pub fn tell(&mut self, now: Ns, outboxes: &HashMap<Conn, Arc<Outbox>>) {
        self.looked = now;
        let waiting: Vec<Conn> = self.n_missed.keys().copied().collect();
        for conn in waiting {
            if let Some(outbox) = outboxes.get(&conn) {
                let _ = self.make_up(conn, outbox);
            }
        }
    }

    /// When it must be looked again, if so long passes in between.
    pub fn due(&self, pace: Ns) -> Option<Ns> {
        (!self.n_missed.is_empty()).then(|| Ns(self.looked.0.saturating_add(pace.0)))
    }

    /// Somebody has gone.
    pub fn forget(&mut self, conn: Conn) {
        let _ = self.n_missed.remove(&conn);
    }

    /// Whether nothing is missing of what came before.
    fn make_up(&mut self, conn: Conn, outbox: &Outbox) -> bool {
        let Some(n_missed) = self.n_missed.get(&conn) else { return true };
        let Status(lost) = Status::LOST;
        let text = "replies at events found no room and were dropped; read faster";
        let is_told = outbox.tell(format!("0 [] error({lost},{n_missed},\"{text}\")\n").into());
        if is_told {
            self.forget(conn);
        }
        is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(outbox: &Outbox) -> String {
        String::from_utf8(outbox.next().await.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn what_was_missed_is_told_before_what_comes_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (outbox, mut missed) = (Outbox::new(1), Missed::default());
            for line in ["a\n", "b\n", "c\n"] {
                missed.pass(7, &outbox, line.into(), Ns(5));
            }
            assert_eq!(missed.due(Ns(10)), Some(Ns(15)));
            assert_eq!(next(&outbox).await, "a\n");
            missed.tell(Ns(20), &HashMap::from([(7, Arc::new(Outbox::new(1)))]));
            assert_eq!(missed.due(Ns(10)), None);
        });
    }

    #[test]
    fn the_number_of_what_was_missed_is_exact() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (outbox, mut missed) = (Outbox::new(1), Missed::default());
            (0..24).for_each(|_| missed.pass(7, &outbox, b"a\n".to_vec(), Ns(5)));
            assert_eq!(next(&outbox).await, "a\n");
            missed.pass(7, &outbox, b"b\n".to_vec(), Ns(6));
            let text = "replies at events found no room and were dropped; read faster";
            assert_eq!(next(&outbox).await, format!("0 [] error(407,23,\"{text}\")\n"));
            // `b` found the room taken by that line.
            assert_eq!(missed.n_missed[&7], 1);
        });
    }
}
