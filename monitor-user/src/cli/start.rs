//! `monitor start`: starts a monitor at the daemon and prints its samples, or leaves it running
//! on a lease.

use super::client::{connect, runtime};
use super::columns::SampleMode;
use super::daemon_args::StartArgs;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::output::{self, Output};
use super::plan::Plan;
use super::series_printer::{DrawMode, SeriesPrinter};
use super::watch::redraws;
use monitor_client::Series;
use monitor_model::id::Ns;
use monitor_model::request::MonitorRequest;
use std::time::Duration;

/// Starts the monitor.
pub fn start(args: &StartArgs) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&args.reading, SampleMode::Periodic)?;
    let request = MonitorRequest {
        id: Some(args.name.clone()),
        every_ns: Some(Ns::from(args.every).0),
        count: args.count,
        lease_ns: args.detach.then(|| Ns::from(args.lease).0),
        replace: args.replace,
        follow: args.follow,
        ..plan.request.clone()
    };
    // Before it starts: an unwritable file must not leave a monitor behind.
    let output = args.reading.output.as_deref().map_or(Ok(Output::Stream), Output::deferred)?;
    runtime()?.block_on(async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        let series = client.start(&request).await?;
        if args.detach {
            return detached(args, &series);
        }
        let writer = EventWriter::series(&plan, output::paint(&output));
        let draw_mode = if redraws(&args.reading) { DrawMode::Redraw } else { DrawMode::Append };
        SeriesPrinter::new(series, writer, output, draw_mode)?.run(None).await
    })
}

/// Prints what was started and how to read and cancel it.
fn detached(args: &StartArgs, series: &Series) -> Result<Exit, Failure> {
    let (every, lease) = (human(args.every), human(args.lease));
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

fn human(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}
