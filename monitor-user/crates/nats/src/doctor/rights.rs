//! What the user of a node may do, by trying.
//!
//! In: a connection. Out: findings. Subjects of a node without a name are tried, which no node has:
//! if the server does not deny them, nothing reads what was sent. Errors of a server come in the
//! order of what caused them, so the last one says that all have come.

use super::finding::Finding;
use crate::Role;
use crate::failure::TIMEOUT;
use crate::subject::token;
use async_nats::Client;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// The name of no node: a name has no question mark.
const NO_NODE: &str = "?";
/// A subject that no user of an account of nodes may publish on.
const LAST: &str = "mon.doctor.last";
/// What a gateway reads: the records of all nodes.
const RECORDS: &str = "mon.s.*";
const GATEWAY_FIX: &str = "run monitor cluster init with --gateways and this node in the folder of \
                           the cluster, copy accounts.conf to the servers and reload them";
/// How long errors are awaited if none comes.
const ERRORS: Duration = Duration::from_secs(1);

/// Tries what must be permitted and what must be denied.
pub async fn examine(
    url: &str,
    client: &Client,
    (node, role): (&str, Role),
    events: &mut UnboundedReceiver<String>,
) -> Vec<Finding> {
    let (own, other) = (token(node), token(NO_NODE));
    let mut permitted = vec![format!("mon.ev.{own}"), format!("mon.r.{own}.{own}")];
    let is_gateway = role == Role::Gateway;
    if is_gateway {
        permitted.push(format!("mon.want.{own}"));
    }
    let denied = [
        format!("mon.ev.{other}"),
        format!("mon.r.{other}.{other}"),
        format!("$JS.API.STREAM.PURGE.{other}"),
        format!("$JS.API.CONSUMER.DELETE.{other}.{other}"),
    ];
    let fix = "copy accounts.conf of the folder of the cluster to the server and reload it";
    // Ends with this function: what the nodes publish meanwhile is dropped.
    let _records = match is_gateway {
        true => client.subscribe(RECORDS).await.ok(),
        false => None,
    };
    for subject in permitted.iter().chain(&denied).map(String::as_str).chain([LAST]) {
        if let Err(why) = client.publish(subject.to_owned(), "".into()).await {
            return vec![Finding::failed(url, "rights", why, "try again")];
        }
    }
    // What is sent is buffered otherwise.
    if let Ok(Err(why)) = timeout(TIMEOUT, client.flush()).await {
        return vec![Finding::failed(url, "rights", why, "try again")];
    }
    let errors = errors(events).await;
    let is_denied =
        |subject: &String| errors.iter().any(|it| it.contains(&format!("\"{subject}\"")));
    let lacking: Vec<&str> =
        permitted.iter().filter(|it| is_denied(it)).map(String::as_str).collect();
    let mut findings = Vec::new();
    if !lacking.is_empty() {
        let found = format!("this node may not publish on {}", lacking.join(" and "));
        findings.push(Finding::failed(url, "rights", found, fix));
    }
    if is_gateway {
        let is_readable = !is_denied(&RECORDS.to_owned());
        findings.push(match is_readable {
            true => Finding::ok(url, "gateway", "it may read what all nodes publish"),
            false => {
                let found = format!("cluster.gateway is set, and this node may not read {RECORDS}");
                Finding::failed(url, "gateway", found, GATEWAY_FIX)
            }
        });
    }
    let open: Vec<&str> = denied.iter().filter(|it| !is_denied(it)).map(String::as_str).collect();
    findings.push(match open.is_empty() {
        true => Finding::ok(url, "denials", "it speaks for itself alone"),
        false => {
            let found = format!("it may publish on {}, as no node should", open.join(" and "));
            Finding::failed(url, "denials", found, fix)
        }
    });
    findings
}

/// The errors of the server, until that of the last subject.
async fn errors(events: &mut UnboundedReceiver<String>) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    while !errors.last().is_some_and(|it| it.contains(LAST)) {
        match timeout(ERRORS, events.recv()).await {
            Ok(Some(error)) => errors.push(error),
            _ => break,
        }
    }
    errors
}
