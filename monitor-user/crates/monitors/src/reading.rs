//! Readings: due views go out together, and come back with their results.

use super::monitor::{EventOrigin, SLACK};
use super::{MonitorEngine, MonitorKey, MonitorOutput, ReadRequest};
use monitor_model::Ns;
use monitor_sampling::consumer::Consumer;

impl MonitorEngine {
    /// Requests a reading for the views of all due monitors. One reading at a time: views that
    /// become due meanwhile join the next.
    pub(super) fn start_reading(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        let accounts = self.accounts.due(&self.readings);
        let first = self.readings.due().into_iter().chain(accounts).min();
        if self.is_reading || first.is_none_or(|at| at > now) {
            return;
        }
        // Views that are due but could wait a little longer share the reading.
        let soon = self.readings.take_due(now, SLACK);
        let mut looks = Vec::with_capacity(soon.len());
        for (key, ready_at) in soon {
            let due = self.monitors.get_mut(&key).filter(|it| it.due().is_some_and(|at| at <= now));
            let Some(monitor) = due else { continue };
            if let Some(budget) =
                self.readings.budget().filter(|_| Some(ready_at) > monitor.wake_at())
            {
                monitor.extend_period(now, budget);
            }
            if let Some(view) = monitor.take_view(now) {
                self.readings.set_tick((monitor.uid, key), None);
                looks.push(ReadRequest::new(key, Consumer::View(view)));
            }
        }
        let accounts = self.accounts.take_due(now, &self.readings);
        looks.extend(accounts.into_iter().map(|(key, view)| ReadRequest::new(key, view)));
        self.is_reading = !looks.is_empty();
        out.push(MonitorOutput::Read(looks));
    }

    /// Schedules an early reading for these monitors.
    pub(super) fn schedule_early_read(&mut self, keys: &[MonitorKey]) {
        for key in keys {
            // A pending first sample shows the end anyway.
            if let Some(monitor) = self.monitors.get_mut(key).filter(|it| it.seq > 0) {
                monitor.wants_early_read = true;
                self.update_timers(*key);
            }
        }
    }

    /// Handles the views that come back from a reading.
    pub(super) fn reading_done(
        &mut self,
        looks: Vec<ReadRequest>,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        self.is_reading = false;
        let unix = self.realtime(now);
        for look in looks {
            let view = match look.consumer {
                Consumer::View(view) => view,
                Consumer::ChildUsage(consumer) => {
                    let uid = self.accounts.0.get(&look.key).map(|it| it.uid);
                    uid.into_iter().for_each(|uid| self.readings.charge((uid, now), look.cost, 0));
                    self.account_read(look.key, (consumer, look.result), now, out);
                    continue;
                }
                // Scrapes and the flight recorder read without a monitor.
                Consumer::Scrape(_) | Consumer::FlightRecorder(_) => continue,
            };
            let Some(monitor) = self.monitors.get_mut(&look.key) else { continue };
            monitor.view = Some(view);
            let bytes = look.result.iter().flatten().map(|it| it.bytes.len()).sum();
            self.readings.charge((monitor.uid, now), look.cost, bytes);
            let over = match look.result {
                Some(_) if monitor.cancelled => true,
                Some(seen) => {
                    monitor.handle_result(seen, (now, EventOrigin { node: &self.node, unix }), out)
                }
                None => false,
            };
            if over && !monitor.cancelled && monitor.has_kept_events() {
                let capabilities = monitor.end_detached();
                self.release(capabilities);
                self.update_timers(look.key);
            } else if over {
                self.remove(look.key, out);
            } else {
                self.update_timers(look.key);
            }
        }
    }
}
