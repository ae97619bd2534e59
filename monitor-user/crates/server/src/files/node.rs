//! What all connections share: facts about the node, and the way to the daemon loop.

use super::aggregator::{Aggregator, AggregatorConfig, follow_child};
use super::cpu_counters::CpuCounters;
use super::event_feed::NodeFeeds;
use super::kernel_log::KernelLog;
use super::kernel_rights::KernelRights;
use super::mon_settings::MonSettings;
use super::node_sample;
use super::node_texts::{NodeText, NodeTexts};
use super::nodes::{NodesSource, OtherNodes};
use super::session::{SessionPolicy, SessionTable};
use super::sexpr::put_pair;
use super::upload::Uploads;
use crate::http::DaemonRequest;
use crate::lock::lock;
use crate::policy::Grantee;
use bytes::Bytes;
use monitor_ninep::FileError;
use monitor_remote::{Address, Connector};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::Sender;

/// What the files of a node's root are about.
pub struct NodeFiles {
    /// `/Linux/x86_64`, with its line break.
    pub arch: String,
    /// This program and what it can do, as a list.
    pub version: String,
    /// What `mon/pull` has.
    pub description: Bytes,
    /// What an administrator writes.
    pub texts: NodeTexts,
    /// The uid that owns the files: the daemon's own.
    pub owner: (u32, String),
    /// The gid of their group.
    pub group: (u32, String),
    /// When the daemon began, in seconds since 1970.
    pub started_s: u32,
    /// Where readings are asked for.
    pub requests: Sender<DaemonRequest>,
    /// The number of this node.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Which users may observe the kernel itself.
    pub kernel_rights: KernelRights,
    /// Counters of processors.
    pub counters: Arc<CpuCounters>,
    /// The log of the kernel.
    pub kernel_log: KernelLog,
    /// The events that are followed for users.
    pub feeds: NodeFeeds,
    /// What is set for samples.
    pub monitor: MonSettings,
    /// Other nodes.
    pub others: Arc<OtherNodes>,
    /// Samples and events of other services.
    pub aggregator: Arc<Aggregator>,
    /// Where other nodes find these files.
    address: Mutex<Option<Address>>,
    /// The sessions of all users.
    pub sessions: Arc<SessionTable>,
    /// Files that other nodes send; absent on a node alone.
    pub uploads: Option<Arc<Uploads>>,
    /// Connects to other nodes, with the certificate of this one if it has one.
    pub connector: Connector,
    /// What was refused, by kind.
    pub refused: Mutex<BTreeMap<String, u64>>,
}

/// What the listener needs of the daemon.
pub struct DaemonFacts {
    /// The name of the backend.
    pub backend: &'static str,
    /// Where readings are asked for.
    pub requests: Sender<DaemonRequest>,
    /// The number and the name of this node.
    pub node: (u32, String),
    /// Users and groups that may open sessions.
    pub execute: Vec<Grantee>,
    /// Other nodes whose state is followed.
    pub others: NodesSource,
    /// Users and groups that may observe all.
    pub observe_all: Vec<Grantee>,
    /// Files that other nodes send; absent on a node alone.
    pub uploads: Option<Arc<Uploads>>,
    /// The children of its aggregator.
    pub aggregator: AggregatorConfig,
    /// Connects to them, with the certificate of this node if it has one.
    pub connector: Connector,
}

impl NodeFiles {
    /// The files of this node.
    pub fn new(facts: DaemonFacts) -> Self {
        use monitor_sys::users;
        let uname = rustix::system::uname();
        let text = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
        let (system, machine) = (text(uname.sysname()), text(uname.machine()));
        let ebpf = if facts.backend == "ebpf" { "yes" } else { "no" };
        let version = env!("CARGO_PKG_VERSION");
        let uid = monitor_sys::fsuid::effective_uid();
        let gid = rustix::process::getegid().as_raw();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let name = |name: Option<String>, number: u32| name.unwrap_or_else(|| number.to_string());
        Self {
            arch: format!("/{system}/{machine}\n"),
            description: node_sample::description(&node_sample::FIELDS).into(),
            version: format!("(version monitor {version} (9p 9P2000) (ebpf {ebpf}))\n"),
            texts: NodeTexts::default(),
            owner: (uid, name(users::name(uid), uid)),
            group: (gid, name(users::group_name(gid), gid)),
            started_s: now.map_or(0, |it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX)),
            requests: facts.requests,
            number: facts.node.0,
            kernel_rights: KernelRights::new(facts.observe_all),
            counters: Arc::default(),
            kernel_log: KernelLog::default(),
            feeds: NodeFeeds::default(),
            monitor: MonSettings::new(&node_sample::FIELDS),
            aggregator: Aggregator::new(
                facts.aggregator,
                &facts.node.1,
                facts.connector.clone(),
                follow_child,
            ),
            name: facts.node.1,
            others: Arc::new(OtherNodes::new(facts.others, facts.connector.clone())),
            address: Mutex::default(),
            uploads: facts.uploads,
            connector: facts.connector.clone(),
            sessions: SessionTable::new(SessionPolicy::new(facts.execute), facts.connector),
            refused: Mutex::default(),
        }
    }

    /// Sets where other nodes find these files, before they are served there.
    pub fn set_address(&self, address: Address) {
        *lock(&self.address) = Some(address);
    }

    /// Where other nodes find these files: with TLS, or on this machine alone.
    pub fn address(&self) -> Option<Address> {
        lock(&self.address).clone()
    }

    /// Counts refusals of a kind.
    pub fn count_refused(&self, kind: &str, n: u64) {
        *lock(&self.refused).entry(kind.to_owned()).or_default() += n;
    }

    /// Writes a part of a text. A changed state is an event.
    ///
    /// # Errors
    ///
    /// When it would be longer than it may be.
    pub fn write_text(&self, text: NodeText, (at, part): (u64, &[u8])) -> Result<(), FileError> {
        self.texts.write(text, at, part)?;
        self.report_state(text);
        Ok(())
    }

    /// Empties a text.
    pub fn clear_text(&self, text: NodeText) {
        self.texts.clear(text);
        self.report_state(text);
    }

    fn report_state(&self, text: NodeText) {
        if text == NodeText::State {
            let state = self.texts.get(text).0;
            let state = String::from_utf8_lossy(&state);
            let mut content = String::new();
            put_pair(&mut content, "state", state.trim_end());
            self.feeds.report(&content);
        }
    }
}
