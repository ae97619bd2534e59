//! Samples that the daemon reads and we record.
//!
//! It sees what the daemon shows its user. What the daemon does not say (the clock since boot) is
//! added from our own clocks, which are the same.

use super::feed::{Feed, fields};
use super::record::{count, feed};
use super::words::Record;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Reader, say};
use crate::cli::plan::Plan;
use monitor_client::{Client, Error, Series, Told};
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::sample::{Note, Sample};
use monitor_protocol::event::{Event, Reason};
use monitor_sys::clock;
use tokio::signal::unix::{SignalKind, signal};

/// A series, and what becomes of it.
pub struct Relayed {
    series: Series,
    feed: Feed,
    /// When the sample before was taken, after boot.
    before: Option<Ns>,
    missed: u64,
    over: bool,
}

fn garbled(error: serde_json::Error) -> Error {
    Error::Garbled { why: error.to_string() }
}

impl Relayed {
    /// Starts the monitor, then the file.
    pub async fn start(words: &Record, plan: &Plan, client: &Client) -> Result<Self, Failure> {
        let named = plan.request.fields.clone();
        let request = Request {
            every_ns: Some(Ns::from(words.every).0),
            count: count(words),
            follow: true,
            sort: None,
            fields: named.or_else(|| Some(fields(&words.reading))),
            ..plan.request.clone()
        };
        let mut series = client.start(&request).await?;
        // Its first sample tells who reads.
        let first = match series.next().await? {
            Some(Told::Event(event)) => event,
            _ => return Err(Failure::failed("the daemon gave no sample")),
        };
        let rates = first.rates().map_err(garbled)?.unwrap_or_default();
        let feed = feed(words, &first.node, rates.sample.source.name())?;
        let mut it = Self { series, feed, before: None, missed: 0, over: false };
        it.over = !it.take(Told::Event(first))?;
        Ok(it)
    }

    /// Records until the end.
    pub async fn run(mut self) -> Result<Exit, Failure> {
        let listen = |kind| {
            let failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
            signal(kind).map_err(failed)
        };
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        while !self.over {
            let told = tokio::select! {
                biased;
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                told = self.series.next() => told?,
            };
            let Some(told) = told else { break };
            self.over = !self.take(told)?;
        }
        self.feed.finish()
    }

    /// Whether it goes on.
    fn take(&mut self, told: Told) -> Result<bool, Failure> {
        match told {
            Told::Away => say("the daemon went away; waiting for it to come back"),
            Told::Back(after) => self.feed.note(Note::missing(format!(
                "the daemon was away for {:.1} s: of that time nothing is known",
                after.as_secs_f64()
            ))),
            Told::Event(event) => {
                if let Some(sample) = self.sample(&event)?
                    && self.feed.put(sample)? == Reader::Gone
                {
                    return Ok(false);
                }
                match event.ended {
                    None => {}
                    Some(Reason::Shutdown | Reason::Failed) => {
                        say(event.message.as_deref().unwrap_or("the daemon could not go on"));
                        return Ok(false);
                    }
                    Some(_) => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// The sample of an event, with what it says beside it.
    fn sample(&mut self, event: &Event) -> Result<Option<Sample>, Failure> {
        let late = event.missed.saturating_sub(self.missed);
        self.missed = event.missed;
        if late > 0 {
            let text = format!("{late} readings left out: one took longer than the interval");
            self.feed.note(Note::remark(text));
        }
        if event.dropped > 0 {
            let text = format!("{} samples dropped: they were read too slowly", event.dropped);
            self.feed.note(Note::missing(text));
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
