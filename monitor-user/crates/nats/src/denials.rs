//! What a server with the configuration of `cluster init` denies, each by trying: the subjects and
//! questions of others, forged and recorded commands, users that it does not know.
//!
//! One server for all. A user that may do what is denied to the node shows that it is denied by the
//! permissions, and not by a mistake in the attempt.

use super::{NatsBus, subject};
use crate::suite::{TestSite, bus_event, has_server};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, push};
use futures_util::StreamExt as _;
use monitor_cluster::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, ReplyStatus, Seq, StreamTime, Targets,
};
use monitor_cluster::bus::{Bus as _, BusEvent, Topic};
use monitor_model::Ns;
use monitor_sys::clock;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// A subject on which no user may publish: its denial comes after those of all before.
const LAST: &str = "mon.last";

/// Subjects on which the node n4 may not publish, by what that would be.
const PUBLISH: [(&str, &[&str]); 8] = [
    (
        "as another node",
        &["mon.cmd.n2.0", "mon.cmd.n2.member", "mon.r.n2.n3", "mon.s.n2", "mon.ev.n2", "mon.hb.n2"],
    ),
    ("the removal of a member", &["mon.cmd.n2.removed"]),
    ("the end of a connection", &["mon.sys.disconnect"]),
    ("keys of others and leases", &["$KV.mon_members.n2", "$KV.mon_lease.removals"]),
    (
        "changes of streams",
        &[
            "$JS.API.STREAM.CREATE.MONCMD",
            "$JS.API.STREAM.UPDATE.MONCMD",
            "$JS.API.STREAM.PURGE.MONCMD",
            "$JS.API.STREAM.DELETE.MONCMD",
            "$JS.API.STREAM.MSG.DELETE.MONCMD",
            "$JS.API.STREAM.SNAPSHOT.MONCMD",
            "$JS.API.STREAM.RESTORE.MONCMD",
            "$JS.API.STREAM.PURGE.KV_mon_members",
        ],
    ),
    (
        "consumers of others",
        &[
            "$JS.API.CONSUMER.NAMES.MONCMD",
            "$JS.API.CONSUMER.LIST.MONCMD",
            "$JS.API.CONSUMER.INFO.MONCMD.other",
            "$JS.API.CONSUMER.DELETE.MONCMD.other",
            "$JS.API.CONSUMER.MSG.NEXT.MONCMD.other",
            "$JS.API.CONSUMER.DURABLE.CREATE.MONCMD.other",
            "$JS.API.CONSUMER.CREATE.KV_mon_lease.other.$KV.mon_lease.>",
            "$JS.ACK.MONCMD.other.1.1.1.1.0",
        ],
    ),
    ("requests for roll-ups", &["mon.want.n4", "mon.want.web"]),
    ("questions to the system", &["$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ"]),
];

/// Subjects to which the node n4 may not subscribe.
const SUBSCRIBE: [&str; 12] = [
    ">",
    "mon.>",
    "mon.cmd.>",
    "mon.r.*.n2",
    "mon.r.>",
    "mon.s.*",
    "mon.hb.n2",
    "_INBOX.>",
    "_INBOX.n2.>",
    "$SYS.>",
    "$SYS.ACCOUNT.MONITOR.DISCONNECT",
    "mon.sys.disconnect",
];

#[test]
fn a_node_may_do_nothing_for_others() {
    if !has_server() {
        return;
    }
    let mut site = TestSite::small();
    site.start();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        // It makes the streams.
        let service = site.bus("n1").await;
        subjects_of_others_are_denied(&site).await;
        users_that_are_not_known_are_refused(&site).await;
        one_server_that_runs_is_enough(&site).await;
        a_recorded_command_is_not_executed_again(&site, service).await;
        deliveries_to_the_subjects_of_others_reach_none(&site).await;
    });
}

async fn subjects_of_others_are_denied(site: &TestSite) {
    let publish = PUBLISH.iter().flat_map(|(_, subjects)| *subjects).copied();
    let denied = denials(site, "n4", publish.clone().collect(), SUBSCRIBE.to_vec()).await;
    for (what, subjects) in PUBLISH {
        for subject in subjects {
            assert!(denied.iter().any(|it| is_denial(it, "Publish", subject)), "{what}: {subject}");
        }
    }
    for subject in SUBSCRIBE {
        let is_denied = denied.iter().any(|it| is_denial(it, "Subscription", subject));
        assert!(is_denied, "subscription to {subject}: {denied:?}");
    }
    // The same is permitted where it belongs.
    let own = vec!["mon.cmd.n4.member", "mon.r.n4.n1", "mon.hb.n4", "mon.ev.n4", "mon.s.n4"];
    let denied = denials(site, "n4", own, vec!["_INBOX.n4.>", "mon.r.*.n4", "mon.want.*"]).await;
    assert_eq!(denied, Vec::<String>::new());
    let admin = vec!["$JS.API.CONSUMER.NAMES.MONCMD", "$JS.API.CONSUMER.INFO.MONCMD.other"];
    assert_eq!(denials(site, "admin", admin, vec![]).await, Vec::<String>::new());
    let publish = vec!["mon.hb.n2", "mon.want.web"];
    let denied = denials(site, "web", publish, vec!["mon.s.*", "mon.ev.*"]).await;
    assert!(denied.len() == 1 && is_denial(&denied[0], "Publish", "mon.hb.n2"), "{denied:?}");
    let denied = denials(site, "admin", vec!["mon.cmd.n2.0"], vec!["mon.>"]).await;
    assert_eq!(denied.len(), 2, "{denied:?}");
}

/// What the server denies a user of that which it tries.
async fn denials(
    site: &TestSite,
    user: &str,
    publish: Vec<&'static str>,
    subscribe: Vec<&'static str>,
) -> Vec<String> {
    let (client, mut errors) = site.client(user).await;
    let mut subscriptions = Vec::new();
    for subject in subscribe {
        subscriptions.push(client.subscribe(subject).await.unwrap());
    }
    for subject in publish.into_iter().chain([LAST]) {
        client.publish(subject, "x".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let mut denied = Vec::new();
    loop {
        let error = timeout(DEADLINE, errors.recv()).await.expect("a denial").expect("a client");
        if is_denial(&error, "Publish", LAST) {
            return denied;
        }
        denied.push(error);
    }
}

fn is_denial(error: &str, act: &str, subject: &str) -> bool {
    error.contains(&format!("Permissions Violation for {act} to \"{subject}\""))
}

async fn users_that_are_not_known_are_refused(site: &TestSite) {
    let unknown = nkeys::KeyPair::new_user().seed().unwrap();
    let password = crate::NatsUser::Password { name: "n1".into(), password: "n1".into() };
    for user in [None, Some(crate::NatsUser::Seed(unknown)), Some(password)] {
        let connection = crate::NatsConnection { user, ..site.connection("n4") };
        let refused = connection.connect(|_| {}).await.map(drop);
        let why = refused.expect_err("it is not known").to_string();
        assert!(why.contains("authorization violation"), "{why}");
    }
    // Nor is a server whose certificate another authority has signed.
    let other = TestSite::small();
    let connection =
        crate::NatsConnection { ca: Some(other.folder.join("ca/ca.crt")), ..site.connection("n4") };
    assert!(connection.connect(|_| {}).await.is_err());
    // Without TLS there is no connection, and so no seed is proved in the clear.
    let servers = vec![format!("nats://{}", site.servers[0].address)];
    let plain = crate::NatsConnection { servers, ca: None, ..site.connection("n4") };
    assert!(plain.connect(|_| {}).await.is_err());
}

async fn one_server_that_runs_is_enough(site: &TestSite) {
    let mut connection = site.connection("n4");
    // Nothing listens on this address of loopback.
    connection.servers.insert(0, "tls://127.255.255.254:9".to_owned());
    connection.connect(|_| {}).await.unwrap();
}

fn command(origin: &str, number: u64) -> BusEntry {
    let targets = Targets::Names(BTreeSet::from(["n1".to_owned()]));
    let (begin_within, not_after) = (Ns(1_000_000_000), StreamTime(u64::MAX));
    let command =
        Command { targets, uid: 0, begin_within, not_after, payload: b"1 [0] stop()".to_vec() };
    let id = EntryId { start: 7, number };
    BusEntry { origin: origin.to_owned(), id, body: EntryBody::Command(command) }
}

/// The position and the origin of the next command.
async fn next_command(bus: &mut NatsBus) -> (Seq, String, EntryId) {
    bus_event(bus, |event| match event {
        BusEvent::Entry(it) => match it.entry.body {
            EntryBody::Command(_) => Some((it.seq, it.entry.origin, it.entry.id)),
            _ => None,
        },
        _ => None,
    })
    .await
}

/// The node n4 reads a command of n2 in the order, as it may, and sends it again.
async fn a_recorded_command_is_not_executed_again(site: &TestSite, mut service: NatsBus) {
    let give_up = Ns(clock::boot().0 + 30_000_000_000);
    let mut sender = site.bus("n2").await;
    sender.multicast(clock::boot(), command("n2", 1), give_up);
    let (seq, origin, _) = next_command(&mut service).await;
    assert_eq!(origin, "n2");
    let (client, mut errors) = site.client("n4").await;
    let context = jetstream::new(client.clone());
    let stream = context.get_stream("MONCMD").await.unwrap();
    let recorded = stream.get_raw_message(seq.0).await.unwrap();
    assert_eq!(recorded.subject.as_str(), "mon.cmd.n2.0");
    client.publish("mon.cmd.n2.0", recorded.payload.clone()).await.unwrap();
    client.flush().await.unwrap();
    let error = timeout(DEADLINE, errors.recv()).await.unwrap().unwrap();
    assert!(is_denial(&error, "Publish", "mon.cmd.n2.0"), "{error}");
    // Under its own name it is in the order, and readers drop it: it says that it is of n2.
    let sent = context.publish("mon.cmd.n4.0", recorded.payload).await.unwrap().await.unwrap();
    assert!(sent.sequence > seq.0);
    sender.multicast(clock::boot(), command("n2", 2), give_up);
    let (last, _, id) = next_command(&mut service).await;
    assert!(last.0 > sent.sequence && id.number == 2, "{last:?} {id:?}");
}

/// A consumer names the subject to which the server delivers entries: n4 tries to let it send a
/// reply and a sign of life of n2, and a question to JetStream.
async fn deliveries_to_the_subjects_of_others_reach_none(site: &TestSite) {
    let (id, seq, status) = (EntryId::default(), Seq(1), ReplyStatus::Executed);
    let forged = CommandReply { id, seq, status, result: b"forged".to_vec() };
    let (client, _errors) = site.client("n4").await;
    let context = jetstream::new(client.clone());
    let acknowledged = context.publish("mon.cmd.n4.0", forged.to_bytes().into()).await.unwrap();
    let start_sequence = acknowledged.await.unwrap().sequence;
    let mut victim = site.bus("n3").await;
    let mut service = site.bus("n1").await;
    service.subscribe(Topic::Heartbeat);
    let stream = context.get_stream("MONCMD").await.unwrap();
    let own = client.new_inbox();
    let mut delivered = client.subscribe(own.clone()).await.unwrap();
    // The last one is its own, which shows that the server delivers the entry.
    let subjects = ["$JS.API.STREAM.PURGE.MONCMD", "mon.r.n2.n3", "mon.hb.n2", own.as_str()];
    for (name, deliver_subject) in
        ["forge1", "forge2", "forge3", "forge4"].into_iter().zip(subjects)
    {
        let config = push::Config {
            name: Some(name.to_owned()),
            deliver_subject: deliver_subject.to_owned(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            filter_subject: subject::ORDER.to_owned(),
            ack_policy: AckPolicy::None,
            memory_storage: true,
            ..push::Config::default()
        };
        stream.create_consumer(config).await.unwrap();
    }
    let message = timeout(DEADLINE, delivered.next()).await.unwrap().unwrap();
    // By this subject a reader would take it for one of n4.
    assert_eq!(message.subject.as_str(), "mon.cmd.n4.0");
    // An honest reply after it is the first that comes.
    let mut honest = site.bus("n2").await;
    honest.reply("n3", CommandReply { result: b"honest".to_vec(), ..forged });
    let reply = bus_event(&mut victim, |event| match event {
        BusEvent::Reply { from, reply } => Some((from, reply.result)),
        _ => None,
    });
    assert_eq!(reply.await, ("n2".to_owned(), b"honest".to_vec()));
    honest.publish(Topic::Heartbeat, b"honest".to_vec());
    let heartbeat = bus_event(&mut service, |event| match event {
        BusEvent::Published { from, bytes, .. } => Some((from, bytes)),
        _ => None,
    });
    assert_eq!(heartbeat.await, ("n2".to_owned(), b"honest".to_vec()));
    // The server takes no question from a delivery: the stream has all its entries.
    assert_eq!(stream.get_info().await.unwrap().state.first_sequence, 1);
}
