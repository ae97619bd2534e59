//! `monitor watch`: readings at a steady pace until somebody has enough; by the daemon, if one
//! answers.

use super::args::{Reading, Watch};
use super::client::{found, runtime};
use super::columns::Pace;
use super::exit::{Exit, Failure};
use super::follow::{Drawn, Follow};
use super::log;
use super::output::{self, Output, Reader, Screen};
use super::pace::{self, Ended, Work, left_out};
use super::pen::Pen;
use super::pipeline::Pipeline;
use super::plan::Plan;
use monitor_client::{Client, Error};
use monitor_format::Form;
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::status::Status;
use monitor_sampling::schedule::Schedule;
use std::os::fd::OwnedFd;

/// Rows that a screen is given beyond its lines: it may grow.
const MORE_ROWS: usize = 256;

/// Reads until it is stopped or has done its count.
pub fn watch(words: &Watch) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&words.reading, Pace::Again)?;
    let probe_log = words.log.level();
    log::start(probe_log);
    let runtime = runtime()?;
    let output = words.reading.output.clone().map_or(Output::Stream, Output::Later);
    let client = match probe_log {
        0 => runtime.block_on(found(&words.reader))?,
        _ => None,
    };
    if let Some(client) = client {
        return runtime.block_on(relayed(words, &plan, output, &client));
    }
    let choice = words.reader.backend;
    let pipeline = Pipeline::open(plan, choice, probe_log, output::paint(&output))?;
    runtime.block_on(pace::run_with(|| {
        // Only once signals are heeded: they would leave the terminal as it is drawn on.
        let drawn = draws(&words.reading);
        let output = if drawn { Output::Screen(Screen::open()?) } else { output };
        Ok(Here { pipeline, output, schedule: schedule(words) })
    }))
}

/// The same, read by the daemon.
async fn relayed(
    words: &Watch,
    plan: &Plan,
    output: Output,
    client: &Client,
) -> Result<Exit, Failure> {
    let drawn = if draws(&words.reading) { Drawn::Over } else { Drawn::After };
    let rows = output::lines().filter(|_| drawn == Drawn::Over).map(|lines| lines + MORE_ROWS);
    let most = rows.filter(|_| words.reading.part.processes());
    let request = Request {
        every_ns: Some(Ns::from(words.every).0),
        count: words.count,
        // As without a daemon: it goes on when all that were named have ended.
        follow: true,
        top: plan.request.top.or(most.and_then(|most| u32::try_from(most).ok())),
        ..plan.request.clone()
    };
    let series = client.start(&request).await.map_err(|error| {
        let limit = matches!(&error, Error::Refused(it) if it.status == Status::OutOfResource);
        let mut failure = Failure::from(error);
        failure.message += if limit { "; --local reads without the daemon" } else { "" };
        failure
    })?;
    let pen = Pen::samples(plan, output::paint(&output));
    Follow::new(series, pen, output, drawn)?.run(None).await
}

fn schedule(words: &Watch) -> Schedule {
    Schedule::new(Ns(0), Ns::from(words.every), words.count)
}

/// Whether frames are drawn over each other.
pub fn draws(words: &Reading) -> bool {
    words.form() == Form::Table && words.output.is_none() && output::on_terminal()
}

/// Read here, shown here.
struct Here {
    pipeline: Pipeline,
    output: Output,
    schedule: Schedule,
}

impl Work for Here {
    fn due(&self) -> Option<Ns> {
        self.schedule.due()
    }

    fn turn(&mut self) -> Result<Reader, Failure> {
        let frame = self.pipeline.turn(self.output.room())?;
        self.output.put(frame)
    }

    fn taken(&mut self, now: Ns) {
        if let Some(note) = left_out(self.schedule.taken(now)) {
            self.pipeline.note(note);
        }
    }

    fn wake(&self) -> Option<std::io::Result<OwnedFd>> {
        self.pipeline.wake()
    }

    fn drain(&mut self) {
        self.pipeline.drain();
    }

    fn finish(&mut self, ended: Ended) -> Result<Exit, Failure> {
        Ok(match ended {
            Ended::Done => self.pipeline.exit(),
            Ended::Interrupted => Exit::Interrupted,
            Ended::Gone | Ended::Terminated => Exit::Ok,
        })
    }
}
