//! The daemon of this node, asked once, again and again, and without an event loop.
//!
//! In: the path of its socket. Out: numbers. Starts no daemon; `monitor serve` does.

use monitor::client::{Client, Error, Request, Target, Told};
use std::path::Path;

/// What one process has used until now, in nanoseconds of CPU.
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
    Ok(process.and_then(|it| it.row.get(monitor::model::field::ProcessField::CpuTime)))
}

/// The same ten times a second, until `most` were seen: each with its place in the series.
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
                assert_eq!(event.dropped, 0, "events that this reader was too slow for");
                seen.push(event.seq);
            }
            // Asked on, the series waits for the daemon to come back …
            Told::Away => {}
            // … and begins anew: nothing is known of the time between.
            Told::Back(_) => seen.clear(),
        }
    }
    Ok(seen)
}

/// Without an event loop: the names of the monitors of this user.
pub fn names(socket: &Path) -> Result<Vec<String>, Error> {
    let client = monitor::client::blocking::Client::connect_to(socket)?;
    Ok(client.list()?.into_iter().map(|it| it.id).collect())
}
