//! `monitor events`: what monitors that run on a lease have to tell, as tables or one JSON object a
//! line.
//!
//! Whoever reads takes a monitor over for that long; its lease begins anew as he goes.

use super::client::{connect, runtime};
use super::exit::{Exit, Failure};
use super::follow::{Drawn, Follow};
use super::output::{self, Output, say};
use super::pen::Pen;
use super::words::Events;
use monitor_client::{Client, Series};
use tokio::task::JoinSet;

/// Prints them.
pub fn events(words: &Events) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let client = connect(words.daemon.socket.as_deref()).await?;
        match &words.name {
            Some(name) => print(client.attach(name).await?, words.follow, pen(words)).await,
            None => all(&client, words).await,
        }
    })
}

/// Of all that run on a lease and to which nobody listens.
async fn all(client: &Client, words: &Events) -> Result<Exit, Failure> {
    let uid = client.hello().await.uid;
    let listed = client.list().await?;
    let free = listed.into_iter().filter(|it| !it.attached && it.uid == uid);
    let mut readers = JoinSet::new();
    for monitor in free {
        let series = client.attach(&monitor.id).await?;
        readers.spawn(print(series, words.follow, pen(words)));
    }
    if readers.is_empty() {
        say("no monitor of yours runs on a lease that nobody reads; see monitor list");
    }
    let mut worst = Exit::Ok;
    while let Some(done) = readers.join_next().await {
        let exit = done.map_err(Failure::failed)??;
        worst = if worst == Exit::Ok { exit } else { worst };
    }
    Ok(worst)
}

fn pen(words: &Events) -> Pen {
    if words.printed.is_json() {
        return Pen::events();
    }
    Pen::tables(output::paint(&Output::Stream))
}

async fn print(series: Series, follow: bool, pen: Pen) -> Result<Exit, Failure> {
    let kept = (!follow).then_some(series.kept());
    Follow::new(series, pen, Output::Stream, Drawn::After)?.run(kept).await
}
