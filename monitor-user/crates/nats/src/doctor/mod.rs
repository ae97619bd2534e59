//! Checks each link of a node to the servers, and says how to fix what is wrong.
//!
//! ```text
//!  greeting   the server answers, its version, JetStream, TLS and its certificate
//!  session    the user, what it may and may not do, the streams, the clock
//! ```
//!
//! In: how the node would connect. Out: findings, one for each check that could be made; a check
//! that needs one that has failed is left out. Nothing is changed on the servers: what is tried
//! and must be denied would have no effect if it were not.

mod finding;
mod greeting;
mod rights;
mod session;
mod tls;
mod version;

pub use finding::{Finding, FindingState};

use crate::NatsOptions;
use crate::Role;
use crate::connection::NatsConnection;
use futures_util::future::join_all;

/// Checks all servers, and what the cluster has on them; `role` is what the node is configured to
/// be.
pub async fn examine(options: &NatsOptions, role: Role) -> Vec<Finding> {
    let servers = options.connection.servers.iter();
    join_all(servers.map(|url| examine_one(url, options, role))).await.concat()
}

async fn examine_one(url: &str, options: &NatsOptions, role: Role) -> Vec<Finding> {
    let mut findings = greeting::examine(url, &options.connection).await;
    if !findings.iter().any(|it| it.state == FindingState::Failed && it.blocks) {
        let servers = vec![url.to_owned()];
        let connection = NatsConnection { servers, ..options.connection.clone() };
        findings.extend(session::examine(url, (connection, role), &options.streams).await);
    }
    let has_stream = |it: &Finding| it.check == "stream" && it.state != FindingState::Failed;
    if findings.iter().any(has_stream) {
        let is_off =
            |it: &&mut Finding| it.check == "jetstream" && it.state == FindingState::Failed;
        let found = "off here; the server passes questions to those of the cluster";
        let off = findings.iter_mut().find(is_off);
        off.into_iter().for_each(|it| *it = Finding::ok(url, "jetstream", found));
    }
    findings
}

#[cfg(test)]
mod tests;
