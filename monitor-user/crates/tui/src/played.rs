//! News from a recording, as if it happened now: at the pace at which it was made, or another.
//!
//! Going back or forward reads the sample before the wanted one too, so that rates are there at
//! once. At its end, and where it stands still, it waits for somebody to go elsewhere, and reads
//! once more what it shows if more of that is asked for.

use super::demand::Demand;
use super::feed::{Feed, News, Place, Told};
use super::reader::Reader;
use monitor_backend as backend;
use monitor_model::id::Ns;
use monitor_recording::{Error, Recording, Replay, Span};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Samples that a step goes.
const STEP: u64 = 10;

/// A recording and its pace.
pub struct Played {
    reader: Reader<Replay>,
    span: Span,
    /// How far a step goes.
    step: Ns,
    asked: Demand,
    /// A frame is wanted, whatever the pace.
    wanted: bool,
    over: bool,
    due: Instant,
    /// Of what was shown last.
    at: Ns,
}

impl Played {
    /// From the beginning.
    pub fn new(recording: Recording, demand: &Demand) -> Result<Self, Error> {
        let span = recording.span().unwrap_or_default();
        let step = Ns(recording.header().every_ns.max(1).saturating_mul(STEP));
        let mut it = Self {
            reader: Reader::played(Replay::new(recording), demand),
            at: span.first.unix,
            span,
            step,
            asked: Demand { frozen: false, ..demand.clone() },
            wanted: true,
            over: false,
            due: Instant::now(),
        };
        it.go(span.first.unix)?;
        Ok(it)
    }

    /// Has the first sample at that time or after it come next, if there is one before it.
    fn go(&mut self, to: Ns) -> Result<(), Error> {
        self.reader.seek().seek(Ns(to.0.saturating_sub(1)))?;
        // The sample before: only its rates are of use.
        let _ = self.reader.read();
        (self.wanted, self.over) = (true, false);
        Ok(())
    }

    fn read(&mut self) -> Told {
        self.wanted = false;
        self.due = Instant::now() + self.asked.every;
        let news = match self.reader.read() {
            Ok(news) => news,
            Err(backend::Error::Over { missing, .. }) => {
                self.over = true;
                let missing: String = missing.iter().map(|it| format!("; {}", it.text)).collect();
                return Told::Said(format!("the recording is over: [ goes back{missing}"));
            }
            Err(error) => return Told::Ended(error.to_string()),
        };
        self.at = news.rates.sample.at.unix;
        let first = self.span.first.unix;
        let since = |it: Ns| Duration::from_nanos(it.since(first).0);
        let place = Place { unix: self.at, at: since(self.at), of: since(self.span.last.unix) };
        Told::News(Arc::new(News { place: Some(place), ..(*news).clone() }))
    }
}

impl Feed for Played {
    fn demand(&mut self, demand: &Demand) {
        self.reader.demand(demand);
        let before = std::mem::replace(&mut self.asked, demand.clone());
        self.due = self.due.min(Instant::now() + demand.every);
        let same_pace = Demand { every: demand.every, frozen: demand.frozen, ..before };
        let over = self.over;
        // Where it cannot go back to what it shows, that stays as it is.
        if (over || demand.frozen) && same_pace != *demand && self.go(self.at).is_ok() {
            self.over = over;
        }
    }

    async fn next(&mut self) -> Told {
        if !self.wanted {
            match self.asked.frozen || self.over {
                true => std::future::pending().await,
                false => sleep_until(self.due).await,
            }
        }
        self.read()
    }

    fn seek(&mut self, steps: i64) -> Result<(), String> {
        let far = self.step.0.saturating_mul(steps.unsigned_abs());
        let to =
            if steps < 0 { self.at.0.saturating_sub(far) } else { self.at.0.saturating_add(far) };
        let to = Ns(to.clamp(self.span.first.unix.0, self.span.last.unix.0));
        self.go(to).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::scene::{Scene, samples};
    use monitor_recording::{Existing, Header, Writer};
    use std::path::PathBuf;

    /// A recording of the scene, taken away when the test is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn of(count: usize) -> Self {
            let name = format!("monitor-top-{}-{count}", std::process::id());
            let it = Self(std::env::temp_dir().join(name));
            let header = Header { every_ns: 1_000_000_000, ..Header::default() };
            let mut writer = Writer::create(&it.0, Existing::Replace, &header).expect("a file");
            for sample in samples(count) {
                writer.append(&sample).expect("there is room");
            }
            let _bytes = writer.finish().expect("there is room");
            it
        }

        fn played(&self) -> Played {
            let demand = Scene::new(80, 24).state.demand();
            let demand = Demand { every: Duration::ZERO, ..demand };
            Played::new(Recording::open(&self.0).expect("a recording"), &demand).expect("it plays")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _it_may_be_gone = std::fs::remove_file(&self.0);
        }
    }

    fn next(played: &mut Played) -> Told {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(async { played.next().await })
    }

    /// Seconds since the beginning, and the CPU of the busiest.
    #[track_caller]
    fn check(told: &Told, second: u64, percent: f64) {
        let Told::News(news) = told else { panic!("{told:?}") };
        let place = news.place.expect("a recording has places");
        assert_eq!((place.at, place.of), (Duration::from_secs(second), Duration::from_secs(19)));
        let cpu = |it: &monitor_model::sample::Process| {
            it.row.get(monitor_model::field::ProcessField::CpuPercent).map_or(0.0, f64::from_bits)
        };
        let most = news.rates.sample.processes.iter().map(cpu).fold(0.0, f64::max);
        assert!((most - percent).abs() < 0.01, "{most}");
    }

    #[test]
    fn it_plays_to_its_end_and_can_be_gone_back_in() {
        let scratch = Scratch::of(20);
        let mut played = scratch.played();
        for second in 1..20 {
            check(&next(&mut played), second, 98.0);
        }
        let Told::Said(text) = next(&mut played) else { panic!("it is over") };
        assert_eq!(text, "the recording is over: [ goes back");
        let id = samples(1)[0].processes[0].id;
        let focus = Some((id, crate::state::Tab::Overview));
        played.demand(&Demand { focus, ..played.asked.clone() });
        let told = next(&mut played);
        check(&told, 19, 98.0);
        let Told::News(news) = told else { panic!("{told:?}") };
        assert_eq!(news.focus.as_ref().map(|it| it.id), Some(id));
        played.seek(-1).expect("there is a past");
        check(&next(&mut played), 9, 98.0);
        played.seek(-10).expect("the beginning is far enough");
        check(&next(&mut played), 1, 98.0);
        played.seek(1).expect("there is more");
        check(&next(&mut played), 11, 98.0);
    }
}
