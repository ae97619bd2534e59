//! The data of the doctor's report: how each capability is provided, at what cost, and what the
//! host lacks. `monitor_sampling::doctor_report` makes it.

use serde::{Deserialize, Serialize};

/// The report of `monitor doctor`, and the reply to the call `probes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Changes when an old reader would misread it.
    pub schema_version: u32,
    /// The monitor's own version.
    pub version: String,
    /// Whether the service reports; else this program tried it itself.
    #[serde(default)]
    pub service: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// The user that reads.
    pub uid: u32,
    /// Whether the kernel describes its types.
    pub btf: bool,
    /// The backend; none, if none works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether something is not served as well as it could be.
    pub degraded: bool,
    /// All capabilities.
    pub capabilities: Vec<CapabilityReport>,
    /// What a probe adds to a call on this machine; absent until that is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_prices: Option<CallPriceReport>,
    /// Facts of the host that decide what works.
    pub host: Vec<HostFact>,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

/// How one capability is provided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CapabilityReport {
    /// Its name.
    pub name: String,
    /// The option or field that requests it.
    pub asked_by: String,
    /// `active`, `exact`, `fallback`, `no`, `failed` or `off`.
    pub state: String,
    /// Why it is not active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The capability that shares its BPF object and reports the counts of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The hooks in use, or the files read instead.
    pub hooks: Vec<String>,
    /// Events since it was attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Mean run time of an event, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_event: Option<f64>,
    /// Whether `ns_per_event` was measured on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<bool>,
    /// Records lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Bytes of BPF maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_bytes: Option<u64>,
}

/// What a hit of a probe on a library call costs, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallPriceReport {
    /// At the start of a function whose first instruction the kernel emulates.
    pub emulated_ns: u64,
    /// At the start of a function that begins with a five-byte NOP.
    pub patched_ns: u64,
    /// At an instruction that the kernel single-steps: any other start, and each end.
    pub stepped_ns: u64,
    /// At an end that is seen by a return trampoline; the hit at the start is added.
    pub trampoline_ns: u64,
}

/// A fact of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostFact {
    /// What was examined.
    pub name: String,
    /// What was found.
    pub value: String,
    /// What it makes impossible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<String>,
    /// What would make that possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
