//! `monitor start`: a monitor at the daemon, printed here or left to run on its lease.

use super::client::{connect, runtime};
use super::columns::Pace;
use super::exit::{Exit, Failure};
use super::follow::{Drawn, Follow};
use super::output::{self, Output};
use super::pen::Pen;
use super::plan::Plan;
use super::watch::draws;
use super::words::Start;
use monitor_client::Series;
use monitor_model::id::Ns;
use monitor_model::request::Request;
use std::time::Duration;

/// Starts it.
pub fn start(words: &Start) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&words.reading, Pace::Again)?;
    let request = Request {
        id: Some(words.name.clone()),
        every_ns: Some(Ns::from(words.every).0),
        count: words.count,
        lease_ns: words.detach.then(|| Ns::from(words.lease).0),
        replace: words.replace,
        follow: words.follow,
        ..plan.request.clone()
    };
    // Before it runs: a file that cannot be written shall not leave a monitor behind.
    let output = words.reading.output.as_deref().map_or(Ok(Output::Stream), Output::later)?;
    runtime()?.block_on(async {
        let client = connect(words.daemon.socket.as_deref()).await?;
        let series = client.start(&request).await?;
        if words.detach {
            return detached(words, &series);
        }
        let pen = Pen::series(&plan, output::paint(&output));
        let drawn = if draws(&words.reading) { Drawn::Over } else { Drawn::After };
        Follow::new(series, pen, output, drawn)?.run(None).await
    })
}

/// Says what runs, and how to read it.
fn detached(words: &Start, series: &Series) -> Result<Exit, Failure> {
    let (every, lease) = (human(words.every), human(words.lease));
    let name = series.id();
    let socket = words.daemon.socket.as_deref();
    let at = socket.map(|path| format!(" --socket {}", path.display())).unwrap_or_default();
    let text = format!(
        "monitor {name:?} runs every {every}, and for {lease} after it was read last\n\
         read:   monitor events {name}{at} --follow\n\
         end:    monitor cancel {name}{at}\n"
    );
    output::print(text.as_bytes())
}

fn human(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}
