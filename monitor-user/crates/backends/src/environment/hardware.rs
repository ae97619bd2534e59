//! Memory controllers, thermal zones, ports of InfiniBand, slots of PCI Express.
//!
//! In: a folder of `/sys`. Out: counters, states and temperatures. The files are those of
//! Documentation/admin-guide/RAS, Documentation/driver-api/thermal/sysfs-api.rst,
//! Documentation/ABI/stable/sysfs-class-infiniband and
//! Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats of the kernel.

use super::values::{Values, entries, number, numbered, text};
use monitor_model::environment::ChangeRule;
use std::path::Path;

/// Corrected and uncorrected errors of memory, by the prefix of their files.
const ECC_KINDS: [(&str, &str); 2] = [("ce", "corrected"), ("ue", "uncorrected")];
/// Counters of errors of a port.
const PORT_COUNTERS: [&str; 12] = [
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_rcv_constraint_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
];
/// `IB_PORT_ACTIVE` of include/rdma/ib_verbs.h.
const PORT_ACTIVE: &str = "4";
/// The totals of errors that a device has reported.
const AER_TOTALS: [(&str, &str, &str); 3] = [
    ("aer_dev_correctable", "TOTAL_ERR_COR", "correctable"),
    ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", "nonfatal"),
    ("aer_dev_fatal", "TOTAL_ERR_FATAL", "fatal"),
];
/// Trip points whose temperature is a limit: at an active one, a fan begins.
const TRIP_TYPES: [&str; 3] = ["passive", "hot", "critical"];

/// Errors of memory: of each module where the controller knows it, and of the controller for those
/// that belong to none.
pub fn memory_controllers(folder: &Path, values: &mut Values) {
    for (controller, path) in numbered(folder, "mc") {
        let controller = format!("mc{controller}");
        let modules: Vec<_> = ["dimm", "rank"]
            .into_iter()
            .flat_map(|sort| numbered(&path, sort).into_iter().map(move |it| (sort, it)))
            .filter(|(_, (_, module))| module.join("dimm_ce_count").exists())
            .collect();
        for (sort, (place, module)) in &modules {
            let label = text(&module.join("dimm_label"));
            let place = format!("{controller}/{sort}{place}");
            let what = label.map_or(place.clone(), |label| format!("{place} {label}"));
            for (prefix, kind) in ECC_KINDS {
                values.add(&what, kind, number(&module.join(format!("dimm_{prefix}_count"))));
            }
        }
        let middle = if modules.is_empty() { "" } else { "_noinfo" };
        for (prefix, kind) in ECC_KINDS {
            values.add(&controller, kind, number(&path.join(format!("{prefix}{middle}_count"))));
        }
    }
}

/// Temperatures in thousandths of a degree Celsius, with the limits of their zone.
pub fn zones(folder: &Path, values: &mut Values) {
    for (zone, path) in numbered(folder, "thermal_zone") {
        let name = text(&path.join("type"));
        let what = name.map_or(format!("zone{zone}"), |name| format!("zone{zone} {name}"));
        let Some(temperature) = number(&path.join("temp")) else { continue };
        for (rest, file) in entries(&path, "trip_point_") {
            let Some(trip) = rest.strip_suffix("_temp") else { continue };
            let sort = text(&path.join(format!("trip_point_{trip}_type"))).unwrap_or_default();
            // A trip point that is switched off has a temperature of 0 or less.
            let limit = number(&file).filter(|it| *it > 0 && TRIP_TYPES.contains(&sort.as_str()));
            let hysteresis = number(&path.join(format!("trip_point_{trip}_hyst"))).unwrap_or(0);
            let rule =
                limit.map(|limit| ChangeRule::Limit { limit, hysteresis: hysteresis.max(0) });
            let kind = format!("{sort}-{}", limit.unwrap_or(0));
            values.add_with(&what, &kind, rule.map(|rule| (temperature, rule)));
        }
    }
}

/// Errors of ports, and whether each is active.
pub fn ports(folder: &Path, values: &mut Values) {
    for (device, path) in entries(folder, "") {
        for (port, path) in numbered(&path.join("ports"), "") {
            let what = format!("{device}/{port}");
            let state = text(&path.join("state"));
            let is_active =
                state.map(|it| i64::from(it.split(':').next().unwrap_or("").trim() == PORT_ACTIVE));
            values.add_with(&what, "active", is_active.map(|it| (it, ChangeRule::State)));
            for counter in PORT_COUNTERS {
                values.add(&what, counter, number(&path.join("counters").join(counter)));
            }
        }
    }
}

/// Errors that devices of PCI Express have reported.
pub fn slots(folder: &Path, values: &mut Values) {
    for (slot, path) in entries(folder, "") {
        for (file, total, kind) in AER_TOTALS {
            let rows = text(&path.join(file)).unwrap_or_default();
            let count = rows.lines().find_map(|row| row.strip_prefix(total)?.trim().parse().ok());
            values.add(&slot, kind, count);
        }
    }
}
