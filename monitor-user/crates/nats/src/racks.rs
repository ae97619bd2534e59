//! Nodes of a rack, whose server is a leaf node of the servers of the cluster: commands, replies
//! and members, the death of a daemon, and what the server of a rack may not do if it is stolen.

use super::Role;
use super::doctor::{FindingState, examine};
use super::subject;
use super::suite::{Agent, TestSite, bus_event, has_server};
use async_nats::jetstream;
use monitor_cluster::bus::entry::{CommandReply, EntryId, ReplyStatus, Seq, Targets};
use monitor_cluster::bus::{Bus as _, BusEvent, Topic};
use monitor_cluster::command::{CallOptions, CommandOutcome, SILENCE};
use monitor_model::Ns;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(60);

fn site() -> TestSite {
    let mut site = TestSite::write_with_racks(1, "n[1-2]", "n1", &["m[1-2]".to_owned()]);
    site.start();
    site
}

async fn see_all(agents: &[Agent]) {
    for agent in agents {
        let all = agent.until(|view| view.is_member && view.n_members == agents.len());
        timeout(DEADLINE, all).await.unwrap_or_else(|_| panic!("{}: no members", agent.name));
    }
}

/// Calls all members until all of them execute: a server of a rack learns of a subscription late.
async fn calls_all(caller: &Agent, n_members: usize) {
    let within = Ns(5_000_000_000);
    let options = CallOptions {
        targets: Targets::All,
        uid: 0,
        begin_within: within,
        reply_within: within,
        payload: b"x".to_vec(),
    };
    let start = Instant::now();
    loop {
        let result = caller.call(options.clone()).await.expect("a member");
        let executed = |it: &&CommandOutcome| **it == CommandOutcome::Executed(b"x".to_vec());
        if result.outcomes.values().filter(executed).count() == n_members {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{}: {:?}", caller.name, result.outcomes);
    }
}

#[test]
fn nodes_of_a_rack_are_members_and_their_death_is_noticed_at_once() {
    if !has_server() {
        return;
    }
    let site = site();
    Runtime::new().unwrap().block_on(async {
        let mut agents = ["n1", "n2", "m1", "m2"].map(|node| site.agent(node));
        see_all(&agents).await;
        for caller in [1, 2] {
            calls_all(&agents[caller], agents.len()).await;
        }
        let findings = examine(&site.options("m1"), Role::Node).await;
        assert!(findings.iter().all(|it| it.state == FindingState::Ok), "{findings:#?}");
        site.signs_of_life(agents.len()).await;
        let start = Instant::now();
        agents[2].kill().await;
        let removed = agents[3].until(|view| view.removed == ["m1"]);
        timeout(DEADLINE, removed).await.expect("m1 is removed");
        let silence = Duration::from_nanos(SILENCE.0 / 2);
        assert!(start.elapsed() < silence, "{:?}", start.elapsed());
        agents[2].start_again();
        see_all(&agents).await;
    });
}

/// A server of a rack whose administrator is hostile: m2 may do there what it likes.
#[test]
fn a_stolen_server_of_a_rack_speaks_for_its_rack_alone() {
    if !has_server() {
        return;
    }
    let mut site = TestSite::write_with_racks(1, "n[1-2]", "n1", &["m[1-2]".to_owned()]);
    let accounts = site.servers[1].config().with_file_name("accounts.conf");
    let text = std::fs::read_to_string(&accounts).unwrap();
    let (before, user) = text.split_once("      # m2\n").unwrap();
    let (key, _) = user.split_once(", permissions").unwrap();
    std::fs::write(&accounts, format!("{before}{key} }}\n    ]\n  }}\n}}\n")).unwrap();
    site.start();
    Runtime::new().unwrap().block_on(async {
        let mut service = site.bus("n1").await;
        service.subscribe(Topic::Heartbeat);
        let (client, _errors) = site.client("m2").await;
        let (id, seq, status) = (EntryId::default(), Seq(1), ReplyStatus::Executed);
        let reply = CommandReply { id, seq, status, result: b"forged".to_vec() };
        let forged = [
            "mon.r.n2.n1",
            "mon.hb.n2",
            "mon.cmd.n2.0",
            "mon.cmd.n2.member",
            "mon.cmd.n2.removed",
            "$KV.mon_members.n2",
            "$KV.mon_lease.removals",
            "$JS.API.STREAM.PURGE.MONCMD",
            "mon.sys.disconnect",
            "$SYS.ACCOUNT.MONITOR.DISCONNECT",
        ];
        // Until the subscription of n1 has come to the rack, nothing passes.
        let came = loop {
            for subject in forged {
                client.publish(subject, reply.to_bytes().into()).await.unwrap();
            }
            let own = CommandReply { result: b"own".to_vec(), ..reply.clone() };
            client.publish(subject::reply("m2", "n1"), own.to_bytes().into()).await.unwrap();
            client.publish("mon.hb.m2", "own".into()).await.unwrap();
            let signs = bus_event(&mut service, |event| match event {
                BusEvent::Reply { from, .. } => Some((from, "reply")),
                BusEvent::Published { from, .. } => Some((from, "sign of life")),
                _ => None,
            });
            if let Ok(came) = timeout(Duration::from_millis(200), signs).await {
                break came;
            }
        };
        assert_eq!(came.0, "m2", "{came:?}");
        // All that was sent until now has come, or never will.
        let context = jetstream::new(site.client("n1").await.0);
        let stream = context.get_stream("MONCMD").await.unwrap();
        assert_eq!(stream.cached_info().state.messages, 0);
        let own = context.publish(subject::member("n1"), "x".into()).await.unwrap();
        assert_eq!(own.await.unwrap().sequence, 1);
    });
}
