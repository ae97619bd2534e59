//! A client of this node's daemon: one sample, a series, and calls without an event loop.
//!
//! In: the path of its socket. Out: numbers. Starts no daemon; `monitor serve` does.

use monitor_client::{Client, Error, Told};
use monitor_model::request::{Request, Target};
use std::path::Path;

/// CPU time that one process has used until now, in nanoseconds.
pub async fn once(socket: &Path, pid: u32) -> Result<Option<u64>, Error> {
    let client = Client::connect_to(socket).await?;
    let request = Request {
        part: "proc".into(),
        fields: Some(vec!["cpu_ns".into()]),
        targets: vec![Target::Pid { pid: pid.into(), node: None }],
        ..Request::default()
    };
    let sampled = client.sample(&request).await?;
    let rates = sampled.event.rates().expect("the daemon writes what it reads");
    let process = rates.and_then(|rates| rates.sample.processes.into_iter().next());
    Ok(process.and_then(|it| it.row.get(monitor_model::field::ProcessField::CpuTime)))
}

/// Samples the node ten times a second, `most` times; returns the sequence numbers.
pub async fn again(socket: &Path, most: u64) -> Result<Vec<u64>, Error> {
    let client = Client::connect_to(socket).await?;
    let request = Request {
        part: "node".into(),
        fields: Some(vec!["load1".into()]),
        every_ns: Some(100_000_000),
        count: Some(most),
        ..Request::default()
    };
    let mut series = client.start(&request).await?;
    let mut seen = Vec::new();
    while let Some(told) = series.next().await? {
        match told {
            Told::Event(event) => {
                assert_eq!(event.dropped, 0, "events were dropped: this client reads too slowly");
                seen.push(event.seq);
            }
            // The next call of `next` waits for the daemon to come back …
            Told::Away => {}
            // … and the series starts anew: the time between is not covered.
            Told::Back(_) => seen.clear(),
        }
    }
    Ok(seen)
}

/// Names of the monitors of this user, through the blocking client.
pub fn names(socket: &Path) -> Result<Vec<String>, Error> {
    let client = monitor_client::blocking::Client::connect_to(socket)?;
    Ok(client.list()?.into_iter().map(|it| it.id).collect())
}
