//! `monitor when --explain`: what the probes of a rule would cost the processes.
//!
//! In: an event and processes. Out: a line for each probe, and what all of them add to a call, as
//! text or as JSON. No process is probed: the prices are measured on a function of this program.

use super::event::WhenEvent;
use super::watch::WhenSession;
use crate::cli::exit::Failure;
use crate::cli::output::json;
use monitor_event::tap::Edge;
use monitor_format::human::{duration_text, escaped_lines};
use monitor_platform::tap::price::{self, ProbePlace, ProbePrice};
use serde_json::json;
use std::fmt::Write as _;
use std::task::Poll;

impl WhenSession {
    /// Prints the prices.
    pub(super) fn explain(mut self, event: &WhenEvent) -> Result<(), Failure> {
        let mut text = String::new();
        let WhenEvent::Call(edge, names) = event else {
            text.push_str("a tracepoint of the kernel: no probe is set in a process\n");
            return self.out.put(text.as_bytes()).map(drop);
        };
        for name in names {
            self.explain_call(*edge, name, &mut text)?;
        }
        self.out.put(escaped_lines(&text).as_bytes()).map(drop)
    }

    /// Adds the prices of one function.
    fn explain_call(&mut self, edge: Edge, name: &str, text: &mut String) -> Result<(), Failure> {
        let wanted = self.wanted_taps(edge, name)?.taps;
        let pids: Vec<_> = self.processes.iter().map(|id| id.pid).collect();
        for pid in pids {
            let mut probes = Vec::new();
            for (tap, _) in &wanted {
                // Without user workers, files are read at once.
                let Poll::Ready(found) = self.taps.probe_prices(tap, pid) else { continue };
                probes.extend(found?);
            }
            // Two probes at one instruction are one hit.
            probes.sort();
            probes.dedup();
            let ns = price::ns_per_call(&probes);
            if self.show.is_json {
                let all: Vec<_> = probes.iter().map(probe_json).collect();
                let line = json!({"pid": pid.0, "probes": all, "ns_per_call": ns});
                text.push_str(&json(&line)?);
                continue;
            }
            for probe in &probes {
                let _ = writeln!(text, "{}", probe_text(pid.0, probe));
            }
            let ns = ns.map_or_else(|| "unknown".to_owned(), |ns| duration_text(ns as f64));
            let _ = writeln!(text, "{pid}: a call of {name} takes {ns} longer", pid = pid.0);
        }
        Ok(())
    }
}

fn probe_json(it: &ProbePrice) -> serde_json::Value {
    json!({
        "file": it.file.to_string_lossy(),
        "function": it.function,
        "place": it.place.name(),
        "probes": it.n_probes,
        "ns": it.ns,
    })
}

fn probe_text(pid: u32, it: &ProbePrice) -> String {
    let ProbePrice { function, n_probes, .. } = it;
    let file = it.file.to_string_lossy();
    let place = match it.place {
        ProbePlace::Start => "the start".to_owned(),
        ProbePlace::End => format!("one of {n_probes} single-stepped ends"),
        ProbePlace::Trampoline => "a return trampoline (it can end the process)".to_owned(),
    };
    let ns = it.ns.map_or_else(|| "not measured".to_owned(), |ns| duration_text(ns as f64));
    format!("{pid}: {ns} at {place} of {file}:{function:#x}")
}
