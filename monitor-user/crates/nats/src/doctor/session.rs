//! What a node finds as a user of a server: its rights, the streams of the cluster, the clock.
//!
//! In: a connection to one server. Out: findings.

use super::finding::Finding;
use super::rights;
use crate::Role;
use crate::connection::NatsConnection;
use crate::failure::TIMEOUT;
use crate::server::{Server, stream_time};
use crate::streams::{STREAM, Streams};
use crate::subject;
use async_nats::Event;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use monitor_sys::clock;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

/// A clock that differs by more is worth a look.
const CLOCK: Duration = Duration::from_secs(1);
/// How long all checks of a server may take.
const SESSION: Duration = Duration::from_secs(20);

/// Checks a server as the user of this node.
pub async fn examine(url: &str, user: (NatsConnection, Role), streams: &Streams) -> Vec<Finding> {
    let examined = timeout(SESSION, examine_all(url, user, streams)).await;
    let late = |_| vec![Finding::failed(url, "session", "no answers in time", "see its log")];
    examined.unwrap_or_else(late)
}

async fn examine_all(
    url: &str,
    (connection, role): (NatsConnection, Role),
    streams: &Streams,
) -> Vec<Finding> {
    let (sender, mut events) = unbounded_channel();
    let connected = connection.connect(move |event| {
        if let Event::ServerError(error) = event {
            // Fails only when the checks are over.
            let _ = sender.send(error.to_string());
        }
    });
    let client = match connected.await {
        Ok(client) => client,
        Err(why) => {
            let fix = "copy accounts.conf of the folder of the cluster to the server and reload \
                       it, and the seed of this node to cluster.credentials";
            return vec![Finding::failed(url, "user", why, fix)];
        }
    };
    let mut findings = vec![Finding::ok(url, "user", "accepted")];
    findings.extend(rights::examine(url, &client, (&connection.node, role), &mut events).await);
    let context = jetstream::ContextBuilder::new().timeout(TIMEOUT).build(client);
    match context.get_stream(STREAM).await {
        Ok(stream) => {
            findings.push(compare(url, &stream.cached_info().config, streams));
            findings.push(clock_offset(url, &context, stream).await);
        }
        Err(why) => {
            let fix = "start a node with cluster.removes_dead: it makes the streams";
            findings.push(Finding::failed(url, "stream", format!("no {STREAM}: {why}"), fix));
        }
    }
    findings
}

/// Compares the stream of the order with what this program would make.
fn compare(url: &str, found: &Config, streams: &Streams) -> Finding {
    let check = "stream";
    if let Err(why) = streams.check_cluster(found) {
        let fix = "give each cluster an account or a server of its own";
        return Finding::failed(url, check, why, fix);
    }
    let want = streams.order();
    let differs = [
        ("subjects", found.subjects == want.subjects),
        ("max_age", found.max_age == want.max_age),
        ("duplicate_window", found.duplicate_window == want.duplicate_window),
        ("max_consumers", found.max_consumers >= want.max_consumers || found.max_consumers < 0),
        ("max_bytes", found.max_bytes >= want.max_bytes || found.max_bytes < 0),
        ("num_replicas", found.num_replicas >= want.num_replicas),
    ];
    let different: Vec<_> = differs.iter().filter(|(_, is_same)| !is_same).map(|it| it.0).collect();
    match different.is_empty() {
        true => {
            let n_servers = found.num_replicas;
            let plural = if n_servers == 1 { "" } else { "s" };
            Finding::ok(url, check, format!("{STREAM}, kept on {n_servers} server{plural}"))
        }
        false => {
            let found = format!("{STREAM} differs in {}", different.join(", "));
            let fix = format!("with the credential of admin: nats stream edit {STREAM}");
            Finding::warning(url, check, found, fix)
        }
    }
}

/// Compares the clock of the server with that of this node, by the time stamp of a consumer.
async fn clock_offset(url: &str, context: &Context, stream: Stream) -> Finding {
    let check = "clock";
    let server = Server::of_stream(context.clone(), stream);
    let server = match server.await {
        Ok(server) => server,
        Err(why) => {
            let fix = "start a node with cluster.removes_dead: it makes the streams";
            return Finding::failed(url, "keys", why, fix);
        }
    };
    let before = clock::now().unix.0;
    let made = server.consume("consumer", (DeliverPolicy::New, subject::ORDER)).await;
    let after = clock::now().unix.0;
    let created = match made {
        Ok(deliveries) => stream_time(deliveries.created).0,
        Err(why) => {
            let fix = "copy accounts.conf of the folder of the cluster to the server and reload it";
            return Finding::failed(url, "order", why, fix);
        }
    };
    // Outside of the time between question and answer, the clocks differ by at least this.
    let ahead = created.saturating_sub(after);
    let behind = before.saturating_sub(created);
    let differs = Duration::from_nanos(ahead.max(behind));
    let side = if ahead > 0 { "ahead" } else { "behind" };
    match differs > CLOCK {
        true => {
            let found = format!("the server is {side} by {} s", differs.as_secs());
            let fix = "synchronize both clocks (chrony); deadlines are right all the same";
            Finding::warning(url, check, found, fix)
        }
        false => Finding::ok(
            url,
            check,
            format!("within {} ms", after.saturating_sub(before).div_ceil(1_000_000)),
        ),
    }
}
