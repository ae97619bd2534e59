//! `monitor events`: prints the samples of detached monitors, as tables or one JSON object per
//! line.
//!
//! While it reads, the monitor is attached to this client; its lease restarts when the client
//! disconnects.

use super::client::{connect, runtime};
use super::daemon_args::EventsArgs;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::output::{self, Output, notice};
use super::series_printer::{DrawMode, SeriesPrinter};
use monitor_client::{Client, Series};
use tokio::task::JoinSet;

/// Prints the samples of one monitor, or of all detached ones.
pub fn events(args: &EventsArgs) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        match &args.name {
            Some(name) => print(client.attach(name).await?, args.follow, event_writer(args)).await,
            None => print_all(&client, args).await,
        }
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

fn event_writer(args: &EventsArgs) -> EventWriter {
    if args.printed.is_json() {
        return EventWriter::events();
    }
    EventWriter::tables(output::paint(&Output::Stream))
}

async fn print(series: Series, follow: bool, writer: EventWriter) -> Result<Exit, Failure> {
    let kept = (!follow).then_some(series.kept());
    SeriesPrinter::new(series, writer, Output::Stream, DrawMode::Append)?.run(kept).await
}
