//! The promises of commands over a bus: executed once, expired, refused, or missing.

use super::fixture::{BusFixture, LONG};
use super::nodes::{SuiteNode, SuiteNodes};
use super::wait::expect;
use crate::bus::BusEvent;
use crate::bus::membership::MembershipChange;
use crate::command::ledger::MemoryLedger;
use crate::command::{CommandOutcome, HEARTBEAT, PAUSE};
use monitor_model::Ns;

fn executed(text: &str) -> CommandOutcome {
    CommandOutcome::Executed(text.into())
}

pub fn members_execute_commands_once(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c"], fixture);
    let all = nodes.ask("a", (&[], "all"), (fixture, LONG));
    assert_eq!(all, ["a", "b", "c"].map(|name| (name.to_owned(), executed("all"))).into());
    let some = nodes.ask("b", (&["c", "x"], "some"), (fixture, LONG));
    assert_eq!(some["c"], executed("some"));
    assert!(matches!(&some["x"], CommandOutcome::Refused(why) if why.contains("not a member")));
    assert_eq!(nodes.get("a").texts(), ["all"]);
    assert_eq!(nodes.get("c").texts(), ["all", "some"]);
}

pub fn a_late_joiner(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    nodes.ask("a", (&["a", "b"], "before"), (fixture, LONG));
    let (seq, _) = nodes.get("a").executed[0];
    let bus = fixture.connect("b", Some(seq));
    let late = SuiteNode::join_over(bus, ("b", 9), MemoryLedger::new(9), fixture);
    nodes.nodes.insert("b".into(), late);
    nodes.until("member b", fixture, |nodes| {
        nodes["b"].node.is_member() && nodes["a"].node.members().get("b").is_some()
    });
    let after = nodes.ask("a", (&[], "after"), (fixture, LONG));
    assert_eq!(after["b"], executed("after"));
    assert_eq!(nodes.get("b").texts(), ["after"]);
}

pub fn a_paused_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    nodes.get("b").is_paused = true;
    let paused = fixture.now();
    let short = Ns(PAUSE.0 / 2);
    let outcomes = nodes.ask("a", (&[], "missed"), (fixture, short));
    assert_eq!((&outcomes["a"], &outcomes["b"]), (&executed("missed"), &CommandOutcome::Missing));
    nodes.get("a").call(fixture, (&["b"], "in time"), LONG);
    nodes.until("a longer pause", fixture, |_| fixture.now().since(paused) > Ns(2 * PAUSE.0));
    nodes.get("b").is_paused = false;
    nodes.until("result", fixture, |nodes| nodes["a"].results.len() == 2);
    assert_eq!(nodes.get("a").results[1].outcomes["b"], executed("in time"));
    assert_eq!(nodes.get("b").texts(), ["in time"]);
}

pub fn a_restarted_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    let ledger = MemoryLedger::new(8);
    nodes.add(("b", 8), ledger.clone(), fixture);
    nodes.until("member b", fixture, |nodes| nodes["a"].node.members().get("b").is_some());
    nodes.ask("a", (&[], "before"), (fixture, LONG));
    let old = nodes.nodes.remove("b").expect("it was added").texts();
    nodes.get("a").call(fixture, (&["b"], "missed"), LONG);
    nodes.until("command in the order", fixture, |nodes| {
        nodes["a"].node.members().as_of() > nodes["a"].executed[0].0
    });
    nodes.add(("b", 9), ledger, fixture);
    nodes.until("result", fixture, |nodes| nodes["a"].results.len() == 2);
    let outcome = &nodes.get("a").results[1].outcomes["b"];
    assert!(matches!(outcome, CommandOutcome::Refused(_)), "{outcome:?}");
    let after = nodes.ask("a", (&["b"], "after"), (fixture, LONG));
    assert_eq!(after["b"], executed("after"));
    assert_eq!((old, nodes.get("b").texts()), (vec!["before".into()], vec!["after".into()]));
}

pub fn a_removed_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let a = nodes.get("a");
    a.node.remove(fixture.now(), a.bus.as_mut(), "b");
    let is_removed = |it: &MembershipChange| matches!(it, MembershipChange::Removed(_));
    nodes.until("removal and return", fixture, |nodes| {
        let changes = &nodes["a"].changes;
        changes.iter().any(is_removed) && nodes["a"].node.members().get("b").is_some()
    });
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
}

pub fn has_removed(changes: &[MembershipChange], node: &str) -> bool {
    changes.iter().any(|it| matches!(it, MembershipChange::Removed(member) if member.node == node))
}

pub fn nodes_that_hang(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c", "d"], fixture);
    for name in ["a", "c"] {
        let node = nodes.get(name);
        node.node.watch_members(node.bus.as_mut());
    }
    let start = fixture.now();
    nodes.until("lease", fixture, |_| fixture.now().since(start) > Ns(3 * HEARTBEAT.0));
    // One of them removes members until then, very probably a: it asked first.
    for name in ["a", "b"] {
        nodes.get(name).is_paused = true;
    }
    let paused = fixture.now();
    nodes.until("removals", fixture, |nodes| {
        ["a", "b"].iter().all(|name| has_removed(&nodes["c"].changes, name))
    });
    let took = fixture.now().since(paused);
    assert!(took <= Ns(6_000_000_000), "removed after {} ms", took.0 / 1_000_000);
    assert!(nodes.get("c").node.members().get("d").is_some() && nodes.get("d").node.is_member());
    for name in ["a", "b"] {
        nodes.get(name).is_paused = false;
    }
    // Those that return may see it later.
    nodes.until("return", fixture, |nodes| {
        let is_back = |name: &&str| {
            nodes["c"].node.members().get(name).is_some() && nodes[*name].node.is_member()
        };
        ["a", "b"].iter().all(is_back)
    });
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
}

pub fn a_draining_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b"], fixture);
    let b = nodes.get("b");
    b.node.drain(fixture.now(), b.bus.as_mut(), Ns(1_000_000_000));
    let is_draining = |it: &MembershipChange| matches!(it, MembershipChange::Draining(_));
    nodes.until("announcement", fixture, |nodes| nodes["a"].changes.iter().any(is_draining));
    assert_eq!(nodes.ask("a", (&["b"], "x"), (fixture, LONG))["b"], executed("x"));
    assert!(nodes.get("a").node.members().get("b").is_some_and(|it| it.is_draining));
    let mut late = fixture.connect("late", None);
    let is_known = expect(late.as_mut(), "members", |event| match event {
        BusEvent::Base { members, .. } => {
            Some(members.iter().any(|it| it.node == "b" && it.is_draining))
        }
        _ => None,
    });
    assert!(is_known);
    let is_gone = |it: &MembershipChange| matches!(it, MembershipChange::Left(_));
    // The one that leaves may see it later.
    nodes.until("departure", fixture, |nodes| {
        nodes["a"].changes.iter().any(is_gone) && !nodes["b"].node.is_member()
    });
    let b = nodes.get("b");
    b.node.join_again(fixture.now(), b.bus.as_mut());
    nodes.until("return", fixture, |nodes| {
        nodes["a"].node.members().get("b").is_some_and(|it| !it.is_draining)
            && nodes["b"].node.is_member()
    });
    assert_eq!(nodes.ask("a", (&["b"], "y"), (fixture, LONG))["b"], executed("y"));
}

pub fn a_name_is_used_by_one_node(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a"], fixture);
    let mut second = SuiteNode::join(("a", 2), MemoryLedger::new(77), fixture);
    nodes.until("refusal of the second", fixture, |_| {
        second.step(fixture.now());
        second.is_name_in_use
    });
    assert!(!second.node.is_member());
    nodes.get("a").leave(fixture);
    nodes.until("second as a member", fixture, |_| {
        second.step(fixture.now());
        second.node.is_member()
    });
}

pub fn a_restart_of_the_server(fixture: &mut dyn BusFixture) {
    let mut nodes = SuiteNodes::new(&["a", "b", "c"], fixture);
    for number in 0..20 {
        nodes.get("a").call(fixture, (&[], &format!("a{number}")), LONG);
        nodes.get("b").call(fixture, (&[], &format!("b{number}")), LONG);
    }
    fixture.restart();
    for number in 20..40 {
        nodes.get("a").call(fixture, (&[], &format!("a{number}")), LONG);
    }
    nodes.until("results", fixture, |nodes| {
        nodes["a"].results.len() == 40 && nodes["b"].results.len() == 20
    });
    let orders = ["a", "b", "c"].map(|name| nodes.get(name).executed.clone());
    assert_eq!(orders[0].len(), 60, "each command is executed once");
    assert!(orders[0] == orders[1] && orders[1] == orders[2], "nodes have different orders");
    let all = ["a", "b"].map(|name| nodes.get(name).results.clone()).concat();
    for result in all {
        // A reply that was in the server when it was killed is lost: its outcome is missing.
        let is_true = |it: &CommandOutcome| {
            matches!(it, CommandOutcome::Executed(_) | CommandOutcome::Missing)
        };
        let outcomes = &result.outcomes;
        assert!(outcomes.len() == 3 && outcomes.values().all(is_true), "{outcomes:?}");
    }
}
