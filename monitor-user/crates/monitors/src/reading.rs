//! Views go out to a reading together, and come back with what they saw.

use super::Engine;
use super::message::{Key, Look, Output};
use super::monitor::{SLACK, Teller};
use monitor_model::id::Ns;
use monitor_sampling::eye::Eye;

impl Engine {
    /// Hands out the views of all monitors that are due. One reading at a time: who comes due
    /// meanwhile joins the next.
    pub(super) fn look(&mut self, now: Ns, out: &mut Vec<Output>) {
        let first = self.ticks.first().into_iter().chain(self.accounts.due()).min();
        if self.looking || first.is_none_or(|at| at > now) {
            return;
        }
        // Who is due, but could wait a little longer, shares the reading.
        let soon = self.ticks.until(Ns(now.0.saturating_add(SLACK.0)));
        let mut looks = Vec::with_capacity(soon.len());
        for key in soon {
            let due = self.monitors.get_mut(&key).filter(|it| it.due().is_some_and(|at| at <= now));
            if let Some(view) = due.and_then(|it| it.leave(now)) {
                looks.push(Look { key, view: Eye::View(view), seen: None });
                self.ticks.set(key, None);
            }
        }
        let accounts = self.accounts.looks(now);
        looks.extend(accounts.into_iter().map(|(key, view)| Look { key, view, seen: None }));
        self.looking = !looks.is_empty();
        out.push(Output::Look(looks));
    }

    /// These shall look before their time.
    pub(super) fn hurry(&mut self, keys: &[Key]) {
        for key in keys {
            // Whoever waits for his first sample sees it there.
            if let Some(monitor) = self.monitors.get_mut(key).filter(|it| it.seq > 0) {
                monitor.hurry = true;
                self.note(*key);
            }
        }
    }

    /// The views are back.
    pub(super) fn seen(&mut self, looks: Vec<Look>, now: Ns, out: &mut Vec<Output>) {
        self.looking = false;
        let unix = self.unix(now);
        for look in looks {
            let view = match look.view {
                Eye::View(view) => view,
                Eye::Account(eye) => {
                    self.accounted(look.key, (eye, look.seen), now, out);
                    continue;
                }
                // Whoever collects metrics asks without a monitor.
                Eye::Scrape(_) | Eye::Whole(_) => continue,
            };
            let Some(monitor) = self.monitors.get_mut(&look.key) else { continue };
            monitor.view = Some(view);
            let over = match look.seen {
                Some(_) if monitor.cancelled => true,
                Some(seen) => monitor.take(seen, (now, Teller { node: &self.node, unix }), out),
                None => false,
            };
            if over && !monitor.cancelled && monitor.awaited() {
                let capabilities = monitor.rest();
                self.release(capabilities);
                self.note(look.key);
            } else if over {
                self.remove(look.key, out);
            } else {
                self.note(look.key);
            }
        }
    }
}
