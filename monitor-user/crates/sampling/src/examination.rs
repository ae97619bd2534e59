//! What `doctor` tells and the call `probes` answers: how each capability is served, at what
//! cost, and what the host lacks.
//!
//! In: circumstances of the host, health of the backend. Out: one object, in the names of its
//! JSON form. Whoever prints it may have got it from a service.

use super::need;
use monitor_backends::host::Host;
use monitor_format::rounded;
use monitor_model::probe::{Health, Probe};
use monitor_model::sample::Note;
use serde::{Deserialize, Serialize};

/// What a backend says of itself.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub backend: &'static str,
    /// How it serves each capability.
    pub probes: Vec<Probe>,
    /// What else it has to say.
    pub notes: Vec<Note>,
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Examination {
    /// Changes when an old reader would misread it.
    pub schema_version: u32,
    /// The monitor's own version.
    pub version: String,
    /// Whether a service was asked; else this program tried it.
    #[serde(default)]
    pub service: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Who reads.
    pub uid: u32,
    /// Whether the kernel describes its types.
    pub btf: bool,
    /// The backend; none, if none works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether something is not served as well as it could be.
    pub degraded: bool,
    /// Every capability.
    pub capabilities: Vec<Entry>,
    /// Every circumstance.
    pub host: Vec<Circumstance>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// One capability.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What one writes to get it.
    pub asked_by: String,
    /// `active`, `exact`, `fallback`, `no`, `failed` or `off`.
    pub state: String,
    /// Why it is not active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The capability that shares its object, and tells what both have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The hooks in use, or the files read instead.
    pub hooks: Vec<String>,
    /// Events since it was attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Run time of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_event: Option<f64>,
    /// Whether that was measured elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<bool>,
    /// Records lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Bytes of BPF maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_bytes: Option<u64>,
}

/// One circumstance of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Circumstance {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub value: String,
    /// What it takes away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<String>,
    /// What would give it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Examination {
    /// Of a host, and of a backend if there is one.
    pub fn of(host: &Host, found: Option<&Found>) -> Self {
        let probes = found.map_or(&[][..], |found| &found.probes);
        let notes = found.map_or(&[][..], |found| &found.notes);
        let circumstances = host.readings.iter().map(|reading| Circumstance {
            name: reading.name.into(),
            value: reading.value.clone(),
            blocks: reading.blocks.map(|(blocks, _)| blocks.into()),
            fix: reading.blocks.map(|(_, fix)| fix.into()),
        });
        Self {
            schema_version: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            service: false,
            kernel: host.kernel.clone(),
            uid: host.uid,
            btf: host.btf,
            backend: found.map(|found| found.backend.into()),
            degraded: found.is_none() || probes.iter().any(Probe::degraded),
            capabilities: probes.iter().map(Entry::of).collect(),
            host: circumstances.collect(),
            notes: notes.iter().map(|note| note.text.to_string()).collect(),
        }
    }
}

impl Entry {
    /// Of a probe.
    pub fn of(probe: &Probe) -> Self {
        let (state, why, fix) = match &probe.health {
            Health::Active => ("active", None, None),
            Health::Fallback { why, exact: true } => ("exact", Some(why), None),
            Health::Fallback { why, exact: false } => ("fallback", Some(why), None),
            Health::Unsupported { why, fix } => ("no", Some(why), Some(fix)),
            Health::Failed { error } => ("failed", Some(error), None),
            Health::Off => ("off", None, None),
        };
        // What two capabilities share is told of the first.
        let own = |number| probe.with.is_none().then_some(number);
        Self {
            name: probe.capability.name().into(),
            asked_by: need::reason(probe.capability).asked_by().into(),
            state: state.into(),
            why: why.cloned(),
            fix: fix.cloned(),
            with: probe.with.map(|it| it.name().into()),
            hooks: probe.hooks.clone(),
            events: own(probe.events),
            ns_per_event: probe.cost.and_then(|cost| rounded(cost.ns_per_event)),
            estimated: probe.cost.map(|cost| cost.estimated),
            lost: own(probe.lost),
            map_bytes: own(probe.map_bytes),
        }
    }
}
