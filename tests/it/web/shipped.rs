//! The shipped dashboard and alert rules: Prometheus accepts them, and the daemon exposes every
//! metric in them.

use super::get::Web;
use super::metrics::promtool;
use crate::root::privilege::granted;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Families that are not always exposed.
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
fn promtool_accepts_the_alert_rules() {
    let path = shipped("alerts.yml");
    let printed = promtool("alerts", &["check", "rules", path.to_str().unwrap()], b"");
    assert!(printed.is_none_or(|it| it.contains("SUCCESS: 9 rules found")));
}

/// The names of our metrics in a text.
fn names(text: &str) -> Vec<&str> {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let names = text.split(|it| !is_letter(it)).filter(|it| it.starts_with("monitor_"));
    names.collect()
}

#[test]
fn root_every_metric_in_them_is_exposed() {
    if !granted("root_every_metric_in_them_is_exposed") {
        return;
    }
    let web = Web::reading("[metrics]\nhistograms = [\"block\", \"run-queue\"]\n", "ebpf");
    let text = crate::deadline::until(|| {
        // Between two scrapes a process must run.
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
            let is_exposed = text.contains(&format!("# TYPE {name} "));
            let sometimes = SOMETIMES.iter().any(|it| name.starts_with(it));
            assert!(is_exposed || sometimes, "{file}: {name} is not exposed");
        }
    }
}
