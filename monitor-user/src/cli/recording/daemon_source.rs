//! Records samples that the daemon reads.
//!
//! In: a series, which contains what the daemon shows to this user. Out: samples in the sink. The
//! boot time, which the daemon does not send, is added from the clocks of this process: they are
//! the same.

use super::args::RecordArgs;
use super::record::{open_sink, sample_count};
use super::sink::{RecordingSink, default_fields};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{OutputState, notice};
use crate::cli::plan::Plan;
use monitor_client::{Client, Error, Series, SeriesItem};
use monitor_model::id::Ns;
use monitor_model::request::MonitorRequest;
use monitor_model::sample::{Note, Sample};
use monitor_protocol::event::{EndReason, Event};
use monitor_sys::clock;
use tokio::signal::unix::{SignalKind, signal};

/// A series and the sink that records it.
pub struct DaemonSource {
    series: Series,
    sink: RecordingSink,
    /// Boot time of the previous sample.
    before: Option<Ns>,
    missed: u64,
    over: bool,
}

fn garbled(error: serde_json::Error) -> Error {
    Error::Protocol { why: error.to_string() }
}

impl DaemonSource {
    /// Starts the monitor, then creates the file.
    pub async fn start(args: &RecordArgs, plan: &Plan, client: &Client) -> Result<Self, Failure> {
        let named = plan.request.fields.clone();
        let request = MonitorRequest {
            every_ns: Some(Ns::from(args.every).0),
            count: sample_count(args),
            follow: true,
            sort: None,
            fields: named.or_else(|| Some(default_fields(&args.reading))),
            ..plan.request.clone()
        };
        let mut series = client.start(&request).await?;
        // The first sample names the backend.
        let first = match series.next().await? {
            Some(SeriesItem::Event(event)) => event,
            _ => return Err(Failure::failed("the daemon sent no sample")),
        };
        let rates = first.rates().map_err(garbled)?.unwrap_or_default();
        let sink = open_sink(args, &first.node, rates.sample.backend.name())?;
        let mut source = Self { series, sink, before: None, missed: 0, over: false };
        source.over = !source.record(SeriesItem::Event(first))?;
        Ok(source)
    }

    /// Records until the end.
    pub async fn run(mut self) -> Result<Exit, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::failed(format!("cannot install signal handlers: {error}"))
            })
        };
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        while !self.over {
            let event = tokio::select! {
                biased;
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                event = self.series.next() => event?,
            };
            let Some(event) = event else { break };
            self.over = !self.record(event)?;
        }
        self.sink.finish()
    }

    /// Records an event. Returns whether to continue.
    fn record(&mut self, event: SeriesItem) -> Result<bool, Failure> {
        match event {
            SeriesItem::Disconnected => notice("connection to the daemon lost; waiting for it"),
            SeriesItem::Reconnected(after) => self.sink.note(Note::missing(format!(
                "connection to the daemon was lost for {:.1} s: no samples of that time",
                after.as_secs_f64()
            ))),
            SeriesItem::Event(event) => {
                if let Some(sample) = self.sample(&event)?
                    && self.sink.append(sample)? == OutputState::Closed
                {
                    return Ok(false);
                }
                match event.ended {
                    None => {}
                    Some(EndReason::Shutdown | EndReason::Failed) => {
                        notice(event.message.as_deref().unwrap_or("the daemon could not continue"));
                        return Ok(false);
                    }
                    Some(_) => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// The sample of an event, with notes about skipped and dropped ones.
    fn sample(&mut self, event: &Event) -> Result<Option<Sample>, Failure> {
        let late = event.missed.saturating_sub(self.missed);
        self.missed = event.missed;
        if late > 0 {
            let text = format!("{late} readings skipped: one took longer than the interval");
            self.sink.note(Note::remark(text));
        }
        if event.dropped > 0 {
            let text = format!("{} samples dropped: this client read too slowly", event.dropped);
            self.sink.note(Note::missing(text));
        }
        let Some(rates) = event.rates().map_err(garbled)? else { return Ok(None) };
        let mut sample = rates.sample;
        let since_boot = {
            let now = clock::now();
            Ns(now.boot.0.saturating_sub(now.unix.0.saturating_sub(sample.at.unix.0)))
        };
        sample.at.boot = match (self.before, rates.interval) {
            (Some(before), Some(interval)) => Ns(before.0.saturating_add(interval.0)),
            _ => since_boot,
        };
        self.before = Some(sample.at.boot);
        Ok(Some(sample))
    }
}
