//! Follows the members of the cluster for `nodes/`: a task of the service.
//!
//! In: calls on a connection inside the daemon, as the user of the service. Out: the members in the
//! table of nodes. Members are asked for their address, and connected to, only while a client uses
//! `nodes/`: each node of a cluster of thousands would else have a connection to each other one.

use super::member::MemberAddresses;
use super::table::OtherNodes;
use crate::http::message::{Message, lines};
use crate::http::{DaemonRequest, LoopbackClient};
use crate::policy::Peer;
use monitor_protocol::cluster::{Gathered, Members};
use monitor_remote::Address;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

/// How often the members are listed, while `nodes/` is used and otherwise.
const USED_INTERVAL: Duration = Duration::from_secs(1);
const UNUSED_INTERVAL: Duration = Duration::from_secs(10);
/// How long members have to say their address.
const ADDRESS_TIME: Duration = Duration::from_secs(2);
/// How long a call may take: the daemon may be ending.
const CALL_TIME: Duration = Duration::from_secs(10);
/// The line that members execute.
const STATUS_LINE: &str = r#"{"id":1,"method":"node_status"}"#;

/// Follows the members until the task is ended. `own` says where this node serves its files.
pub async fn follow_members(
    nodes: Arc<OtherNodes>,
    requests: Sender<DaemonRequest>,
    own: impl Fn() -> Option<Address>,
) {
    let mut addresses = MemberAddresses::default();
    loop {
        let is_used = nodes.usage.is_used();
        if let Some(members) = call::<Members>(&requests, "members", &json!({})).await {
            let own = (members.node.as_str(), own());
            // They are there before their addresses are.
            nodes.set_members(&addresses.listed(&members.members, own.clone()), is_used);
            if is_used {
                ask_addresses(&mut addresses, &requests, &members).await;
                nodes.set_members(&addresses.listed(&members.members, own), is_used);
            }
            addresses.retain(&members.members);
        }
        let pause = if is_used { USED_INTERVAL } else { UNUSED_INTERVAL };
        nodes.usage.wait(is_used, pause).await;
    }
}

/// Asks the members whose address is not known.
async fn ask_addresses(
    addresses: &mut MemberAddresses,
    requests: &Sender<DaemonRequest>,
    members: &Members,
) {
    let mut others = addresses.take_due(&members.members, Instant::now());
    others.retain(|name| *name != members.node);
    if others.is_empty() {
        return;
    }
    let within_ns = u64::try_from(ADDRESS_TIME.as_nanos()).unwrap_or(u64::MAX);
    let params = json!({"nodes": others.join(","), "line": STATUS_LINE, "within_ns": within_ns});
    if let Some(gathered) = call::<Gathered>(requests, "gather", &params).await {
        addresses.note(&gathered);
    }
}

/// The result of a call as the user of the service; `None` if it is refused, or the daemon ends.
async fn call<T: for<'a> Deserialize<'a>>(
    requests: &Sender<DaemonRequest>,
    method: &str,
    params: &Value,
) -> Option<T> {
    let uid = monitor_sys::fsuid::effective_uid();
    let gid = rustix::process::getegid().as_raw();
    let peer = Peer { uid, gid, pid: std::process::id(), groups: Vec::new() };
    let answer = async {
        let client = LoopbackClient::connect_user(requests, peer).await.ok()?;
        client.call(0, method, params).await;
        while let Some(chunk) = client.next_lines().await {
            for line in lines(&chunk) {
                let Some(message) = Message::from_line(line) else { continue };
                if message.id == Some(0) {
                    return serde_json::from_str(message.result?.get()).ok();
                }
            }
        }
        None
    };
    timeout(CALL_TIME, answer).await.ok().flatten()
}
