//! The daemon's own status, its budget and its configuration.
//!
//! In: results of the sampler thread, ticks, SIGHUP. Out: answers to `status` and `doctor`, the
//! capabilities to attach, the status line of systemd.

use super::config::{FlightConfig, LoadedConfig};
use super::sampler::{SamplerJob, SamplerResult};
use super::systemd::{self, WatchdogTick};
use super::{DaemonLoop, reload, self_usage, with_file_owner};
use crate::policy::Policy;
use monitor_model::{Capability, Ns, Refusal, Scope};
use monitor_monitors::MonitorInput;
use monitor_protocol::{Conn, call::Tag, status::DaemonStatus};
use monitor_sampling::{budget, capability_deps};
use std::{collections::BTreeMap, sync::Arc, sync::atomic::Ordering};

/// Calls of one connection that may wait for the same doctor report.
const WAITING_REPORTS: usize = 8;

impl DaemonLoop {
    pub(super) fn sampler_result(&mut self, result: SamplerResult) -> Option<MonitorInput> {
        match result {
            SamplerResult::Read(monitors) => return Some(MonitorInput::ReadingDone(monitors)),
            SamplerResult::Ended(keys) => return Some(MonitorInput::TargetsEnded(keys)),
            SamplerResult::Claimed(settled) => return Some(MonitorInput::ClaimsSettled(settled)),
            SamplerResult::Scraped(access, encoding, result) => {
                self.http.finish_scrape(access, encoding, &result);
            }
            SamplerResult::FlightChunk(to, tag, chunk) => self.clients.reply(to, &tag, chunk),
            SamplerResult::Doctor(report) => {
                for (to, tag) in std::mem::take(&mut self.waiting_for_doctor) {
                    self.clients.reply(to, &tag, Ok::<_, Refusal>(&report));
                }
            }
            SamplerResult::Usage(probes, cpu) => {
                self.watchdog.reader_answered();
                let all = self.requested_capabilities();
                let configured = &self.exposed_capabilities().to_vec();
                let requested = budget::RequestedCapabilities { all: &all, configured };
                let change = self.usage.update((probes, cpu), requested);
                if let Some(change) = change {
                    self.http.shed_pushes(self.usage.sheds_pushes());
                    self.log_budget_change(change);
                }
            }
        }
        None
    }

    pub(super) fn watchdog_tick(&mut self, tick: WatchdogTick) -> Option<MonitorInput> {
        if let WatchdogTick::ReadUsage { count_run_time } = tick {
            self.heap.schedule();
            self.send_job(SamplerJob::ReadUsage { count_run_time });
        }
        None
    }

    /// Requests a doctor report. Calls that arrive while one is made get the same report.
    pub(super) fn doctor(&mut self, to: Conn, tag: Tag) {
        if self.waiting_for_doctor.is_empty() {
            self.send_job(SamplerJob::Doctor);
        }
        if self.waiting_for_doctor.iter().filter(|it| it.0 == to).count() >= WAITING_REPORTS {
            let why = format!("{WAITING_REPORTS} calls of this connection wait for a report");
            return self.clients.reply(to, &tag, Err::<(), _>(Refusal::limit(why)));
        }
        self.waiting_for_doctor.push((to, tag));
    }

    fn log_budget_change(&self, change: budget::BudgetChange) {
        let budget = self.usage.status().budget;
        let (share, used) = (budget.share, budget.used.unwrap_or_default());
        match change {
            budget::BudgetChange::Shed(it) => {
                tracing::warn!(share, used, "over the budget: {} is given up", it.name());
            }
            budget::BudgetChange::Resume(it) => {
                tracing::info!(share, used, "within the budget: {} is back", it.name());
            }
            budget::BudgetChange::Exhausted => {
                tracing::warn!(share, used, "over the budget, and nothing is left to give up");
            }
            budget::BudgetChange::Recovered => {
                tracing::info!(share, used, "within the budget again");
            }
        }
        systemd::status(&self.status_line());
    }

    /// The capabilities to attach: those requested and not given up.
    pub(super) fn needed_capabilities(&self) -> Vec<Capability> {
        let shed = self.usage.shed();
        let mut all = self.requested_capabilities();
        all.retain(|it| !shed.iter().any(|(shed, _)| shed == it));
        all
    }

    /// The requested capabilities: those without cost always, the others if a client needs them.
    fn requested_capabilities(&self) -> Vec<Capability> {
        let mut all = capability_deps::capabilities(Scope::Processes, &[], &[]);
        all.extend(self.cluster.engine().capabilities());
        all.extend(self.exposed_capabilities());
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn reload(&mut self) -> Option<MonitorInput> {
        systemd::reloading();
        match (self.settings.reload)() {
            Ok(loaded) => self.apply(loaded),
            Err(error) => {
                error.lines().for_each(|line| tracing::error!("{line}"));
                tracing::error!("the configuration stays as it was");
            }
        }
        systemd::ready(&self.status_line());
        None
    }

    /// Turns the flight recorder on or off.
    pub(super) fn configure_flight(&self, config: FlightConfig) {
        self.flight_enabled.store(config.keep > Ns(0), Ordering::Relaxed);
        self.send_job(SamplerJob::ConfigureFlight(config));
    }

    fn apply(&mut self, loaded: LoadedConfig) {
        let reload::ConfigChange { config, need_restart } =
            reload::change(&self.settings.loaded.config, loaded.config);
        need_restart.iter().for_each(|line| tracing::warn!("{line}"));
        let policy = Policy { hidden: self.settings.hidden, grants: config.grants.clone() };
        self.cluster.set_limits(with_file_owner(config.limits));
        self.clients.set_policy(config.connections, policy);
        self.configure_flight(config.flight);
        self.usage.set_limits(config.budget);
        self.cluster.set_budget(self_usage::reading_budget(&config.budget));
        self.request_thread.configure(config.diag.clone());
        self.request_thread.follow(config.followed);
        // The same metrics keep their consumer, so that their counters go on.
        if *self.exposed != config.exposed {
            self.exposed = Arc::new(config.exposed.clone());
        }
        (self.settings.log)(config.log);
        self.settings.loaded = LoadedConfig { config, ..loaded };
        tracing::info!("the configuration was read again");
    }

    /// The daemon's own numbers.
    pub(super) fn daemon_status(&self) -> DaemonStatus {
        let mut refused = BTreeMap::new();
        for (kind, n) in self.cluster.engine().refused().iter().chain(self.clients.refused()) {
            *refused.entry((*kind).to_owned()).or_default() += n;
        }
        for (kind, n) in self.files_bridge.refused() {
            *refused.entry(kind).or_default() += n;
        }
        let config = self.settings.loaded.path.as_ref();
        DaemonStatus {
            node: self.settings.node.name.clone(),
            config: config.map(|path| path.display().to_string()),
            connections: self.clients.len() as u64,
            monitors: self.cluster.engine().len() as u64,
            queue_bytes: self.clients.queued() as u64,
            dropped: self.clients.dropped(),
            refused,
            http: self.http.status(),
            otlp: self.http.pushed(),
            gateway: self.cluster_bridge.is_gateway(),
            ..self.usage.status()
        }
    }

    /// One line for `systemctl status`.
    pub(super) fn status_line(&self) -> String {
        let shed = self.usage.status().budget.shed;
        let endpoint = &self.settings.endpoint;
        match shed.is_empty() {
            true => format!("serving on {endpoint}"),
            false => format!("serving on {endpoint}; given up: {}", shed.join(", ")),
        }
    }
}
