//! `monitor list` and `monitor cancel`: which monitors run at the daemon, and their end.

use super::client::{connect, runtime};
use super::exit::{Exit, Failure};
use super::output;
use super::words::{Cancel, List};
use monitor_client as client;
use monitor_format::human;
use monitor_protocol::answer::Listed;

/// Lists them.
pub fn list(words: &List) -> Result<Exit, Failure> {
    let listed = runtime()?.block_on(async {
        let client = connect(words.daemon.socket.as_deref()).await?;
        Ok::<_, Failure>(client.list().await?)
    })?;
    if words.printed.is_json() {
        return output::print(output::json(&listed)?.as_bytes());
    }
    output::print(table(&listed).as_bytes())
}

/// Cancels.
pub fn cancel(words: &Cancel) -> Result<Exit, Failure> {
    let which = client::Cancel {
        id: words.name.clone(),
        all: words.all,
        requestor: words.requestor,
        ..client::Cancel::default()
    };
    let ended = runtime()?.block_on(async {
        let client = connect(words.daemon.socket.as_deref()).await?;
        Ok::<_, Failure>(client.cancel(&which).await?)
    })?;
    let lines: String = ended.iter().map(|id| format!("{}\n", shown(id))).collect();
    output::print(lines.as_bytes())
}

fn table(listed: &[Listed]) -> String {
    let mut text = format!(
        "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
        "NAME", "UID", "PID", "EVERY", "SAMPLES", "MISSED", "KEPT", "LEASE"
    );
    for it in listed {
        let time = |ns: Option<u64>| {
            let Some(ns) = ns else { return "-".to_owned() };
            let mut text = String::new();
            human::span(ns as f64, &mut text);
            text
        };
        text += &format!(
            "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
            shown(&it.id),
            it.uid,
            it.requestor,
            it.ended.map_or_else(|| time(it.period_ns), |_| "ended".to_owned()),
            it.samples,
            it.missed,
            it.kept,
            time(it.lease_left_ns),
        );
    }
    text
}

/// A name as it can be written to a terminal.
fn shown(id: &str) -> String {
    let mut text = String::new();
    human::escaped(id, &mut text);
    text
}
