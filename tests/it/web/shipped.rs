//! The dashboard and the alert rules that are shipped: Prometheus takes them, and every name in
//! them is one that the service exposes.

use super::get::Web;
use super::metrics::promtool;
use crate::root::privilege::granted;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Families that are there only when there is something to tell.
const SOMETIMES: [&str; 4] = [
    "monitor_node_psi_",
    "monitor_otlp_pushes_total",
    "monitor_own_used_ratio",
    "monitor_group_block_",
];

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/prometheus").join(name)
}

#[test]
fn promtool_takes_the_alert_rules() {
    let path = shipped("alerts.yml");
    let said = promtool("alerts", &["check", "rules", path.to_str().unwrap()], b"");
    assert!(said.is_none_or(|it| it.contains("SUCCESS: 9 rules found")));
}

/// Names of ours in a text.
fn names(text: &str) -> Vec<&str> {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = text.split(|it| !is_letter(it)).filter(|it| it.starts_with("monitor_"));
    words.collect()
}

#[test]
fn root_every_name_in_them_is_exposed() {
    if !granted("root_every_name_in_them_is_exposed") {
        return;
    }
    let web = Web::reading("[metrics]\nhistograms = [\"block\", \"run-queue\"]\n", "ebpf");
    let text = crate::deadline::until(|| {
        // Something must have run between two collections.
        let mut command = Command::new("true");
        let _ = command.stdin(Stdio::null()).status();
        let answer = web.get("/metrics", &[&web.token()]);
        let text = answer.text().to_owned();
        text.contains("monitor_group_run_queue_latency_seconds").then_some(text)
    });
    for file in ["alerts.yml", "dashboard.json"] {
        let used = std::fs::read_to_string(shipped(file)).unwrap();
        let used = names(&used);
        assert!(used.len() > 10);
        for name in used {
            let there = text.contains(&format!("# TYPE {name} "));
            let sometimes = SOMETIMES.iter().any(|it| name.starts_with(it));
            assert!(there || sometimes, "{file}: nothing is called {name}");
        }
    }
}
