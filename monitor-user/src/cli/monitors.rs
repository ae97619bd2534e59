//! `monitor start`, `list`, `cancel` and `events`: the monitors at the daemon.
//!
//! `start` prints the samples of a new monitor, or leaves it running on a lease; `events` prints
//! those of detached ones, as tables or one JSON object per line. While it reads, the monitor is
//! attached to this client; its lease restarts when the client disconnects.

use super::args::daemon::{CancelArgs, DaemonReportArgs, EventsArgs, StartArgs};
use super::client::with_daemon;
use super::columns::SampleMode;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::output::{self, Output, notice};
use super::plan::Plan;
use super::series_printer::{DrawMode, SeriesPrinter};
use super::watch::draw_mode;
use monitor_client as client;
use monitor_client::{Client, Series};
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_model::request::MonitorRequest;
use monitor_protocol::answer::MonitorSummary;
use std::time::Duration;
use tokio::task::JoinSet;

/// Starts the monitor.
pub fn start(args: &StartArgs) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&args.reading, SampleMode::Periodic)?;
    let request = request(args, &plan);
    // Before it starts: an unwritable file must not leave a monitor behind.
    let output = args.reading.output.as_deref().map_or(Ok(Output::Stream), Output::deferred)?;
    with_daemon(args.daemon.socket.as_deref(), async |client| -> Result<Exit, Failure> {
        let series = client.start(&request).await?;
        if args.detach {
            return detached(args, &series);
        }
        let writer = EventWriter::series(&plan, output::paint(&output));
        SeriesPrinter::new(series, writer, output, draw_mode(&args.reading))?.run(None).await
    })
}

/// The request that starts the monitor.
pub fn request(args: &StartArgs, plan: &Plan) -> MonitorRequest {
    MonitorRequest {
        id: Some(args.name.clone()),
        every_ns: Some(Ns::from(args.every).0),
        count: args.limit.samples(args.every),
        lease_ns: args.detach.then(|| Ns::from(args.lease).0),
        replace: args.replace,
        follow: args.follow,
        ..plan.request.clone()
    }
}

/// Prints what was started and how to read and cancel it.
fn detached(args: &StartArgs, series: &Series) -> Result<Exit, Failure> {
    let (every, lease) = (interval_text(args.every), interval_text(args.lease));
    let name = series.id();
    let socket = args.daemon.socket.as_deref();
    let at = socket.map(|path| format!(" --socket {}", path.display())).unwrap_or_default();
    let text = format!(
        "monitor {name:?} reads every {every}; it is cancelled {lease} after it was last read\n\
         read:   monitor events {name}{at} --follow\n\
         cancel: monitor cancel {name}{at}\n"
    );
    output::print(text.as_bytes())
}

/// A time as it is written in options.
pub fn interval_text(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}

/// Lists the monitors.
pub fn list(args: &DaemonReportArgs) -> Result<Exit, Failure> {
    let socket = args.daemon.socket.as_deref();
    let listed = with_daemon(socket, async |client| client.list().await)?;
    output::report(&listed, args.printed.is_json(), |listed| table(listed))
}

/// Cancels one monitor or all, and prints their names.
pub fn cancel(args: &CancelArgs) -> Result<Exit, Failure> {
    let which = client::Cancel {
        id: args.name.clone(),
        all: args.all,
        requestor: args.requestor,
        ..client::Cancel::default()
    };
    let socket = args.daemon.socket.as_deref();
    let ended = with_daemon(socket, async |client| client.cancel(&which).await)?;
    let lines: String = ended.iter().map(|id| human::escaped_text(id) + "\n").collect();
    output::print(lines.as_bytes())
}

/// A table with a line for each monitor.
pub fn table(listed: &[MonitorSummary]) -> String {
    let mut text = format!(
        "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
        "NAME", "UID", "PID", "EVERY", "SAMPLES", "MISSED", "KEPT", "LEASE"
    );
    for monitor in listed {
        let time = |ns: Option<u64>| {
            ns.map_or_else(|| "-".to_owned(), |ns| human::duration_text(ns as f64))
        };
        text += &format!(
            "{:<20} {:>6} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
            human::escaped_text(&monitor.id),
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

/// Prints the samples of one monitor, or of all detached ones.
pub fn events(args: &EventsArgs) -> Result<Exit, Failure> {
    with_daemon(args.daemon.socket.as_deref(), async |client| -> Result<Exit, Failure> {
        let printed = async {
            match &args.name {
                Some(name) => {
                    print(client.attach(name).await?, args.follow, event_writer(args)).await
                }
                None => print_all(&client, args).await,
            }
        };
        let Some(span) = args.span else { return printed.await };
        tokio::time::timeout(span, printed).await.unwrap_or(Ok(Exit::Ok))
    })
}

/// Prints the samples of this user's detached monitors that no client reads.
async fn print_all(client: &Client, args: &EventsArgs) -> Result<Exit, Failure> {
    let uid = client.hello().await.uid;
    let listed = client.list().await?;
    let detached = listed.into_iter().filter(|it| !it.attached && it.uid == uid);
    let mut readers = JoinSet::new();
    for monitor in detached {
        let series = client.attach(&monitor.id).await?;
        readers.spawn(print(series, args.follow, event_writer(args)));
    }
    if readers.is_empty() {
        notice("no detached monitor to read; see monitor list");
    }
    let mut worst = Exit::Ok;
    while let Some(done) = readers.join_next().await {
        let exit = done.map_err(Failure::failed)??;
        worst = if worst == Exit::Ok { exit } else { worst };
    }
    Ok(worst)
}

/// Prints events in the format of the arguments.
pub fn event_writer(args: &EventsArgs) -> EventWriter {
    if args.printed.is_json() {
        return EventWriter::events();
    }
    EventWriter::tables(output::paint(&Output::Stream))
}

async fn print(series: Series, follow: bool, writer: EventWriter) -> Result<Exit, Failure> {
    let kept = (!follow).then_some(series.kept());
    SeriesPrinter::new(series, writer, Output::Stream, DrawMode::Append)?.run(kept).await
}
