//! `monitor list` and `monitor cancel`: list and cancel the monitors at the daemon.

use super::client::{connect, runtime};
use super::daemon_args::{CancelArgs, ListArgs};
use super::exit::{Exit, Failure};
use super::output;
use monitor_client as client;
use monitor_format::human;
use monitor_protocol::answer::MonitorSummary;

/// Lists the monitors.
pub fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let listed = runtime()?.block_on(async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        Ok::<_, Failure>(client.list().await?)
    })?;
    if args.printed.is_json() {
        return output::print(output::json(&listed)?.as_bytes());
    }
    output::print(table(&listed).as_bytes())
}

/// Cancels one monitor or all, and prints their names.
pub fn cancel(args: &CancelArgs) -> Result<Exit, Failure> {
    let which = client::Cancel {
        id: args.name.clone(),
        all: args.all,
        requestor: args.requestor,
        ..client::Cancel::default()
    };
    let ended = runtime()?.block_on(async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        Ok::<_, Failure>(client.cancel(&which).await?)
    })?;
    let lines: String = ended.iter().map(|id| format!("{}\n", escaped_name(id))).collect();
    output::print(lines.as_bytes())
}

fn table(listed: &[MonitorSummary]) -> String {
    let mut text = format!(
        "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
        "NAME", "UID", "PID", "EVERY", "SAMPLES", "MISSED", "KEPT", "LEASE"
    );
    for monitor in listed {
        let time = |ns: Option<u64>| {
            let Some(ns) = ns else { return "-".to_owned() };
            let mut text = String::new();
            human::duration(ns as f64, &mut text);
            text
        };
        text += &format!(
            "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
            escaped_name(&monitor.id),
            monitor.uid,
            monitor.requestor,
            monitor.ended.map_or_else(|| time(monitor.period_ns), |_| "ended".to_owned()),
            monitor.samples,
            monitor.missed,
            monitor.kept,
            time(monitor.lease_left_ns),
        );
    }
    text
}

/// A name with control characters escaped, safe for a terminal.
fn escaped_name(id: &str) -> String {
    let mut text = String::new();
    human::escaped(id, &mut text);
    text
}
