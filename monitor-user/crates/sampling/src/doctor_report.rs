//! Makes the doctor's report: how each capability is provided, at what cost, what the host lacks.
//!
//! In: facts of the host, health of the backend. Out: [`DoctorReport`], the same for the command
//! `doctor` and the call `probes`.

use super::capability_deps;
use monitor_backend::rule::call_prices::CallPrices;
use monitor_backends::host::Host;
use monitor_format::rounded;
use monitor_model::{Health, Note, Probe};
use monitor_protocol::doctor::{CallPriceReport, CapabilityReport, DoctorReport, HostFact};

/// The state of a backend.
#[derive(Clone, Debug)]
pub struct BackendState {
    /// Its name.
    pub backend: &'static str,
    /// How it provides each capability.
    pub probes: Vec<Probe>,
    /// Its notes.
    pub notes: Vec<Note>,
}

/// The report on a host, and on a backend if one works.
pub fn doctor_report(host: &Host, found: Option<&BackendState>) -> DoctorReport {
    let probes = found.map_or(&[][..], |found| &found.probes);
    let notes = found.map_or(&[][..], |found| &found.notes);
    let facts = host.facts.iter().map(|reading| HostFact {
        name: reading.name.into(),
        value: reading.value.clone(),
        blocks: reading.blocks.map(|(blocks, _)| blocks.into()),
        fix: reading.blocks.map(|(_, fix)| fix.into()),
    });
    DoctorReport {
        schema_version: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        service: false,
        kernel: host.kernel.clone(),
        uid: host.uid,
        btf: host.btf,
        backend: found.map(|found| found.backend.into()),
        degraded: found.is_none() || probes.iter().any(Probe::degraded),
        capabilities: probes.iter().map(capability_report).collect(),
        call_prices: CallPrices::measured().map(|it| CallPriceReport {
            emulated_ns: it.emulated_ns,
            patched_ns: it.patched_ns,
            stepped_ns: it.stepped_ns,
            trampoline_ns: it.trampoline_ns,
        }),
        host: facts.collect(),
        notes: notes.iter().map(|note| note.text.to_string()).collect(),
    }
}

/// The report on one probe.
pub fn capability_report(probe: &Probe) -> CapabilityReport {
    let (state, why, fix) = match &probe.health {
        Health::Active => ("active", None, None),
        Health::Fallback { why, exact: true } => ("exact", Some(why), None),
        Health::Fallback { why, exact: false } => ("fallback", Some(why), None),
        Health::Unsupported { why, fix } => ("no", Some(why), Some(fix)),
        Health::Failed { error } => ("failed", Some(error), None),
        Health::Off => ("off", None, None),
    };
    // Two capabilities of one object: the first reports the counts.
    let own = |number| probe.with.is_none().then_some(number);
    CapabilityReport {
        name: probe.capability.name().into(),
        asked_by: capability_deps::reason(probe.capability).option_name().into(),
        state: state.into(),
        why: why.cloned(),
        fix: fix.cloned(),
        with: probe.with.map(|it| it.name().into()),
        hooks: probe.hooks.clone(),
        events: probe.events.filter(|_| probe.with.is_none()),
        ns_per_event: probe.cost.and_then(|cost| rounded(cost.ns_per_event)),
        estimated: probe.cost.map(|cost| cost.estimated),
        lost: own(probe.lost),
        map_bytes: own(probe.map_bytes),
    }
}
