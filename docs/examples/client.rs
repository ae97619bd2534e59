//! A client of this node's daemon: one sample, a series, and calls without an event loop.
//!
//! In: the path of its socket. Out: numbers. Does not start a daemon; `monitor serve` does.

use monitor_client::{Client, Error, MonitorRequest, SeriesItem, Target};
use std::path::Path;

/// CPU time that one process has used so far, in nanoseconds.
pub async fn once(socket: &Path, pid: u32) -> Result<Option<u64>, Error> {
    let client = Client::connect_to(socket).await?;
    let request = MonitorRequest {
        part: "proc".into(),
        fields: Some(vec!["cpu_ns".into()]),
        targets: vec![Target::Pid { pid: pid.into(), node: None }],
        ..MonitorRequest::default()
    };
    let reply = client.sample(&request).await?;
    let rates = reply.event.rates().expect("a sample of the daemon parses");
    let process = rates.and_then(|rates| rates.sample.processes.into_iter().next());
    Ok(process.and_then(|it| it.row.get(monitor_model::field::ProcessField::CpuTime)))
}

/// Samples the node ten times a second, `most` times; returns the sequence numbers.
pub async fn again(socket: &Path, most: u64) -> Result<Vec<u64>, Error> {
    let client = Client::connect_to(socket).await?;
    let request = MonitorRequest {
        part: "node".into(),
        fields: Some(vec!["load1".into()]),
        every_ns: Some(100_000_000),
        count: Some(most),
        ..MonitorRequest::default()
    };
    let mut series = client.start(&request).await?;
    let mut seen = Vec::new();
    while let Some(item) = series.next().await? {
        match item {
            SeriesItem::Event(event) => {
                assert_eq!(event.dropped, 0, "events were dropped: this client reads too slowly");
                seen.push(event.seq);
            }
            // The next call of `next` waits for the daemon to come back …
            SeriesItem::Disconnected => {}
            // … and a new series starts: the time between is not covered.
            SeriesItem::Reconnected(_) => seen.clear(),
        }
    }
    Ok(seen)
}

/// Names of the monitors of this user, through the blocking client.
pub fn names(socket: &Path) -> Result<Vec<String>, Error> {
    let client = monitor_client::blocking::Client::connect_to(socket)?;
    Ok(client.list()?.into_iter().map(|it| it.id).collect())
}
