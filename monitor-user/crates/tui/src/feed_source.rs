//! The data source of the screen: a local backend, a daemon, a recording or a script.
//!
//! A source gets queries and returns updates. It does not know the screen, and the screen does not
//! know the source: it shows the last update.

use super::rule::{RuleRequest, Rules};
use super::{state::Tab, view_query::ViewQuery};
use monitor_backends::procfs::details::{self, Connection, Signals};
use monitor_model::{Identity, Ns, Process, Rates};
use monitor_protocol::doctor::CapabilityReport;
use monitor_sys::{clock, memory};
use std::{future::Future, sync::Arc, time::Duration};

/// An event of a source.
#[derive(Clone, Debug)]
pub enum FeedEvent {
    /// A new reading.
    Update(Arc<Update>),
    /// The state of the rules that were started from the screen.
    Rules(Rules),
    /// A message for the user; the values stay as they are.
    Message(String),
    /// The source has ended, for this reason.
    Ended(String),
}

/// A reading and further data for the screen.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The sample with its rates.
    pub rates: Rates,
    /// The number of matching rows, if not all of them were sent.
    pub matched: Option<usize>,
    /// The process whose details are shown, with all its fields.
    pub focus: Option<Process>,
    /// Data that is read for that process only.
    pub details: ProcessDetails,
    /// The usage of this program and of the daemon.
    pub cost: Vec<Usage>,
    /// The state of each capability.
    pub probes: Arc<[CapabilityReport]>,
    /// The position in a recording.
    pub playback: Option<PlaybackPos>,
    /// Whether it is a reading of another node: no action of this program reaches its processes.
    pub is_elsewhere: bool,
}

/// Data that is read for one process while a page shows it.
#[derive(Clone, Debug, Default)]
pub struct ProcessDetails {
    /// Its connections, or why they cannot be read.
    pub connections: Option<Result<Vec<Connection>, String>>,
    /// Its signal masks, or why they cannot be read.
    pub signals: Option<Result<Signals, String>>,
}

impl ProcessDetails {
    /// The details of a recorded process: not available.
    pub fn recorded() -> Self {
        let why = "a recording does not have them".to_owned();
        Self { connections: Some(Err(why.clone())), signals: Some(Err(why)) }
    }

    /// The details of a process of another node: not available.
    pub fn elsewhere() -> Self {
        let why = "they are read on the node of the process alone".to_owned();
        Self { connections: Some(Err(why.clone())), signals: Some(Err(why)) }
    }

    /// Reads what the open page shows.
    pub fn read(focus: Option<(Identity, Tab)>) -> Self {
        let pid = |page| focus.filter(|(_, tab)| *tab == page).map(|(id, _)| id.pid.0);
        Self {
            connections: pid(Tab::Connections).map(details::connections),
            signals: pid(Tab::Signals).map(details::signals),
        }
    }
}

/// The usage of a part of the monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The part: this program or the daemon.
    pub part: &'static str,
    /// CPU in percent of one processor; absent before the second reading.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
}

/// A position in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaybackPos {
    /// The time on the realtime clock.
    pub unix: Ns,
    /// The time since the start of the recording.
    pub elapsed: Duration,
    /// The length of the recording.
    pub length: Duration,
}

/// A source of updates.
pub trait FeedSource {
    /// Sets what is read from now on.
    fn set_query(&mut self, query: &ViewQuery);

    /// Waits for the next event. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = FeedEvent>;

    /// Seeks this number of steps in a recording.
    ///
    /// # Errors
    ///
    /// When the source is not a recording, or the recording cannot be read.
    fn seek(&mut self, _: i64) -> Result<(), String> {
        Err("this is live: seeking works only in a recording".into())
    }

    /// Starts or removes a rule.
    ///
    /// # Errors
    ///
    /// When the source cannot run rules.
    fn rule(&mut self, _: RuleRequest) -> Result<(), String> {
        Err("this is a recording: rules need live processes".into())
    }
}

/// Time and CPU time at the last measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessCost(Option<(Ns, Ns)>);

impl ProcessCost {
    /// The usage since the last measurement.
    pub fn measure(&mut self) -> Usage {
        let (at, cpu) = (clock::boot(), clock::process_cpu());
        let before = self.0.replace((at, cpu)).filter(|(before, _)| at > *before);
        let cpu_percent = before.map(|(before, used)| share(cpu.since(used), at.since(before)));
        Usage { part: "self", cpu_percent, rss_bytes: memory::resident_bytes() }
    }
}

/// CPU time as percent of one processor.
pub fn share(used: Ns, of: Ns) -> f64 {
    used.0 as f64 / of.0 as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_known_from_the_second_measurement_on() {
        let mut cost = ProcessCost::default();
        assert_eq!(cost.measure().cpu_percent, None);
        let second = cost.measure();
        assert!(second.cpu_percent.is_some_and(|it| it >= 0.0) && second.rss_bytes.is_some());
    }

    #[test]
    fn a_share_is_of_one_processor() {
        assert!((share(Ns(20), Ns(1_000)) - 2.0).abs() < 1e-9);
    }
}
