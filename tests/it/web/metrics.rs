//! The metrics in each encoding, checked with the tools of Prometheus.

use super::get::Web;
use crate::root::privilege::skip;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

/// The output of promtool for a text; `None` if it is not installed.
pub fn promtool(test: &str, args: &[&str], text: &[u8]) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(why) if why.kind() == ErrorKind::NotFound => {
            skip(test, "needs promtool: apt-get install prometheus");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    assert!(output.status.success() || !printed.is_empty());
    Some(printed)
}

#[test]
fn promtool_accepts_the_metrics() {
    let web = Web::with("[metrics]\nhistograms = [\"block\"]\n");
    // The second sample has rates, which are not exposed.
    for _ in 0..2 {
        let answer = web.get("/metrics", &[&web.token()]);
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        let printed = promtool("promtool", &["check", "metrics"], &answer.body);
        assert_eq!(printed.unwrap_or_default(), "", "{}", answer.text());
    }
}

#[test]
fn the_daemon_the_node_its_devices_and_groups_are_exposed() {
    let web = Web::with("[metrics]\ngroup_by = \"user\"\ngroups = 7\n");
    let answer = web.get("/metrics", &[&web.token()]);
    for line in [
        "monitor_build_info{version=\"",
        "monitor_own_cpu_seconds_total ",
        "monitor_own_resident_bytes ",
        "monitor_probe_health{capability=\"block\",health=\"",
        "monitor_http_requests_total ",
        "monitor_groups_limit 7\n",
        "monitor_group_processes{by=\"user\",name=\"",
        "monitor_node_mem_total_bytes ",
        "monitor_cpu_user_seconds_total{cpu=\"",
        "monitor_disk_read_bytes_total{device=\"",
        "monitor_net_sent_bytes_total{interface=\"",
    ] {
        assert!(answer.text().contains(&format!("\n{line}")), "{line}: {}", answer.text());
    }
    assert!(!answer.text().contains("pid=\""), "one series for each process is not bounded");
}

#[test]
fn openmetrics_is_sent_on_request() {
    let web = Web::with("");
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let answer = web.get("/metrics", &[accept]);
    assert!(answer.head.contains("application/openmetrics-text; version=1.0.0"), "{}", answer.head);
    let text = answer.text();
    assert!(text.contains("# TYPE monitor_group_cpu_seconds counter\n"));
    assert!(text.contains("# UNIT monitor_group_cpu_seconds seconds\n"));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_reload_changes_what_is_exposed() {
    let web = Web::with("[metrics]\ngroup_by = \"comm\"\n");
    assert!(web.get("/metrics", &[]).text().contains("monitor_group_processes{by=\"comm\""));
    let rule = "rules = [{ name = \"all\", comm = \".\" }]\n";
    let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n[metrics]\n{rule}");
    crate::served::write(&web.served.config(), &config);
    web.served.signal(rustix::process::Signal::HUP);
    crate::deadline::until(|| {
        let answer = web.get("/metrics", &[]);
        answer.text().contains("monitor_group_processes{by=\"rule\",name=\"all\"").then_some(())
    });
}
