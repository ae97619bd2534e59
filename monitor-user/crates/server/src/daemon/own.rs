//! The service about itself: what it uses and holds, what it gives up to stay cheap, its
//! configuration.

use super::config::{Keeping, Loaded};
use super::heart::{self, Ask};
use super::sampler::{Done, Job};
use super::{Loop, own_files, reload};
use crate::policy::Policy;
use monitor_model::id::Ns;
use monitor_model::scope::Scope;
use monitor_model::status::Refusal;
use monitor_model::want::Capability;
use monitor_monitors::Input;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::status::Own;
use monitor_sampling::{budget, need};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Loop {
    pub(super) fn done(&mut self, done: Done) -> Option<Input> {
        match done {
            Done::Looked(looks) => return Some(Input::Seen(looks)),
            Done::Ended(keys) => return Some(Input::Ended(keys)),
            Done::Claimed(settled) => return Some(Input::Claimed(settled)),
            Done::Ranks(ranks) => self.announce(ranks),
            Done::Scraped(sight, encoding, result) => self.collected((sight, encoding), &result),
            Done::Handed(to, tag, handed) => self.clients.reply(to, &tag, handed),
            Done::Examined(found) => {
                for (to, tag) in std::mem::take(&mut self.examining) {
                    self.clients.reply(to, &tag, Ok::<_, Refusal>(&found));
                }
            }
            Done::Accounted(probes) => {
                self.heart.answered();
                let change = self.account.take(probes, &self.asked());
                if let Some(change) = change {
                    self.changed(change);
                }
            }
        }
        None
    }

    pub(super) fn ask(&mut self, ask: Ask) -> Option<Input> {
        if let Ask::Account { counted } = ask {
            self.send(Job::Account { counted });
        }
        None
    }

    /// One question at a time; who asks meanwhile gets the same answer.
    pub(super) fn examine(&mut self, to: Conn, tag: Tag) {
        if self.examining.is_empty() {
            self.send(Job::Examine);
        }
        self.examining.push((to, tag));
    }

    fn changed(&self, change: budget::Change) {
        let budget = self.account.own().budget;
        let (share, used) = (budget.share, budget.used.unwrap_or_default());
        match change {
            budget::Change::Shed(it) => {
                tracing::warn!(share, used, "over the budget: {} is given up", it.name());
            }
            budget::Change::Resume(it) => {
                tracing::info!(share, used, "within the budget: {} is back", it.name());
            }
            budget::Change::Bare => {
                tracing::warn!(share, used, "over the budget, and nothing is left to give up");
            }
        }
        heart::say(&self.status_line());
    }

    /// What must be attached: what is asked for and not given up.
    pub(super) fn needed(&self) -> Vec<Capability> {
        let shed = self.account.shed();
        let mut all = self.asked();
        all.retain(|it| !shed.iter().any(|(shed, _)| shed == it));
        all
    }

    /// What is asked for: what costs nothing always, the rest by somebody.
    fn asked(&self) -> Vec<Capability> {
        let mut all = need::capabilities(Scope::Processes, &[], &[]);
        all.extend(self.cluster.engine().capabilities());
        all.extend(self.exposed_capabilities());
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn reload(&mut self) -> Option<Input> {
        heart::reloading();
        match (self.settings.reload)() {
            Ok(loaded) => self.take(loaded),
            Err(wrong) => {
                wrong.lines().for_each(|line| tracing::error!("{line}"));
                tracing::error!("the configuration stays as it was");
            }
        }
        heart::ready(&self.status_line());
        None
    }

    /// Keeps the last minutes, or no more.
    pub(super) fn keep(&self, keeping: Keeping) {
        self.keeps.store(keeping.keep > Ns(0), Ordering::Relaxed);
        self.send(Job::Keep(keeping));
    }

    fn take(&mut self, loaded: Loaded) {
        let reload::Change { config, waits } =
            reload::change(&self.settings.loaded.config, loaded.config);
        waits.iter().for_each(|line| tracing::warn!("{line}"));
        let policy = Policy { hidden: self.settings.hidden, grants: config.grants.clone() };
        self.cluster.limit(own_files(config.limits));
        self.clients.rule(config.door, policy);
        self.keep(config.keeping);
        self.account.limit(config.budget);
        self.hand.configure(config.diag.clone());
        // Only what is new begins anew.
        if *self.exposed != config.exposed {
            self.exposed = Arc::new(config.exposed.clone());
        }
        (self.settings.log)(config.log);
        self.settings.loaded = Loaded { config, ..loaded };
        tracing::info!("the configuration was read again");
    }

    /// The service's own numbers.
    pub(super) fn own(&self) -> Own {
        let mut refused = BTreeMap::new();
        for (kind, n) in self.cluster.engine().refused().iter().chain(self.clients.refused()) {
            *refused.entry((*kind).to_owned()).or_default() += n;
        }
        let config = self.settings.loaded.path.as_ref();
        Own {
            node: self.settings.node.name.clone(),
            config: config.map(|path| path.display().to_string()),
            connections: self.clients.len() as u64,
            monitors: self.cluster.engine().len() as u64,
            queue_bytes: self.clients.queued() as u64,
            dropped: self.clients.dropped(),
            refused,
            http: self.web.status(),
            otlp: self.web.pushed(),
            ..self.account.own()
        }
    }

    /// One line for `systemctl status`.
    pub(super) fn status_line(&self) -> String {
        let shed = self.account.own().budget.shed;
        let place = &self.settings.place;
        match shed.is_empty() {
            true => format!("serving on {place}"),
            false => format!("serving on {place}; given up: {}", shed.join(", ")),
        }
    }
}
