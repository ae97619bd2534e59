//! Monitors that the service of the node has for the clients of a job: what its host does not read.
//!
//! In: requests. Out: their samples, of this node and of others, until they end. Each has a
//! connection of its own, which is closed when it ends, so that no node goes on with it. A service
//! that was restarted is asked again.

use monitor_client::{Client, Error, Event, MissingNode, MonitorRequest, SeriesItem, Status};
use monitor_pmix::host::UsageSink;
use monitor_pmix::{NodeWithoutSample, ServiceUsage};
use monitor_protocol::event::EndReason;
use std::collections::BTreeMap;
use tokio::task::AbortHandle;

/// The monitors that have not ended.
#[derive(Default)]
pub struct ServiceMonitors {
    tasks: BTreeMap<u64, AbortHandle>,
}

impl ServiceMonitors {
    /// Begins a monitor, on the event loop of the host.
    pub fn begin(&mut self, number: u64, request: MonitorRequest, sink: UsageSink) {
        let task = tokio::spawn(async move {
            if let Err(error) = follow(&request, &sink).await {
                sink.send(ServiceUsage::Refused(status(&error)));
            }
        });
        self.tasks.insert(number, task.abort_handle());
    }

    /// Ends a monitor.
    pub fn end(&mut self, number: u64) {
        if let Some(task) = self.tasks.remove(&number) {
            task.abort();
        }
    }
}

/// Passes the samples of a monitor on, until it ends.
async fn follow(request: &MonitorRequest, sink: &UsageSink) -> Result<(), Error> {
    let client = Client::connect().await?;
    if request.every_ns.is_none() {
        let reply = client.sample(request).await?;
        let events: Vec<_> = [reply.event].into_iter().chain(reply.others).collect();
        sink.send(usage(&events, &reply.missing, reply.partial));
        return Ok(());
    }
    let mut series = client.start(request).await?;
    let first = series.take_first();
    sink.send(usage(&first, series.missing(), series.partial()));
    let mut ended = first.iter().find_map(|it| it.ended);
    while let Some(item) = series.next().await? {
        // There are no samples between an end of the service and its restart.
        let SeriesItem::Event(event) = item else { continue };
        let is_partial = event.partial;
        ended = event.ended.or(ended);
        sink.send(usage(&[*event], &[], is_partial));
    }
    sink.send(ServiceUsage::Ended(ended.map_or("ended", EndReason::name)));
    Ok(())
}

fn usage(events: &[Event], missing: &[MissingNode], is_partial: bool) -> ServiceUsage {
    let samples = events.iter().filter_map(|it| Some(it.sample.as_deref()?.get().to_owned()));
    let missing = missing
        .iter()
        .cloned()
        .map(|MissingNode { node, status, message }| NodeWithoutSample { node, status, message });
    ServiceUsage::Sampled { samples: samples.collect(), missing: missing.collect(), is_partial }
}

/// The status of PMIx for an error: without a service there is nothing that carries it out.
fn status(error: &Error) -> Status {
    match error {
        Error::Refused(refusal) => refusal.status,
        Error::Unreachable { .. } => Status::NotSupported,
        _ => Status::Error,
    }
}
