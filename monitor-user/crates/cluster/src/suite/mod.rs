//! What each bus passes: its own promises, and those of commands over it.
//!
//! In: a fixture that connects ports and restarts the server. Out: a panic that says what is
//! missing. Each case needs a bus of its own.

mod bus_cases;
mod command_cases;
mod fixture;
mod follow_cases;
mod nodes;
mod wait;

pub use fixture::BusFixture;

use bus_cases as bus;
use command_cases as command;
use follow_cases as follow;

/// A case of the suite.
pub type SuiteCase = fn(&mut dyn BusFixture);

/// All cases, with their names.
pub const CASES: &[(&str, SuiteCase)] = &[
    ("all_ports_have_one_order", bus::all_ports_have_one_order),
    ("an_entry_sent_twice_has_one_position", bus::an_entry_sent_twice_has_one_position),
    ("a_late_port_has_the_members_and_what_it_asks_for", bus::a_late_port),
    ("a_stay_that_was_removed_is_over_for_all_ports", bus::a_removed_stay),
    ("messages_go_beside_the_order", bus::messages_go_beside_the_order),
    ("a_message_reaches_one_node_alone", bus::a_message_reaches_one_node_alone),
    ("messages_to_a_node_do_not_overtake_each_other", bus::messages_to_a_node_do_not_overtake),
    ("a_lease_has_one_holder", bus::a_lease_has_one_holder),
    ("members_execute_commands_once", command::members_execute_commands_once),
    ("a_node_executes_nothing_from_before_it_joined", command::a_late_joiner),
    ("a_node_that_was_paused_executes_nothing_that_expired", command::a_paused_node),
    ("a_restarted_node_refuses_what_it_missed", command::a_restarted_node),
    ("a_removed_node_comes_back_as_a_new_member", command::a_removed_node),
    ("nodes_that_hang_are_removed_within_six_seconds", command::nodes_that_hang),
    ("a_node_that_drains_executes_until_it_leaves", command::a_draining_node),
    ("a_name_is_used_by_one_node", command::a_name_is_used_by_one_node),
    ("a_restart_of_the_server_loses_no_command", command::a_restart_of_the_server),
    ("lines_of_a_session_come_once_or_are_counted", follow::lines_of_a_session),
];

#[cfg(test)]
mod tests {
    use super::command_cases::has_removed;
    use super::nodes::SuiteNodes;
    use super::*;
    use crate::bus::Bus;
    use crate::bus::entry::Seq;
    use crate::bus::local::LocalBus;
    use crate::command::{HEARTBEAT, SILENCE};
    use monitor_model::Ns;

    struct LocalFixture(LocalBus);

    impl BusFixture for LocalFixture {
        fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus> {
            Box::new(self.0.connect(name, from))
        }

        fn now(&self) -> Ns {
            monitor_sys::clock::boot()
        }

        // No process carries the order.
        fn restart(&mut self) {}
    }

    #[test]
    fn a_node_whose_connection_is_lost_is_removed_at_once() {
        let mut fixture = LocalFixture(LocalBus::default());
        let mut nodes = SuiteNodes::new(&["a", "b"], &mut fixture);
        let a = nodes.get("a");
        a.node.watch_members(a.bus.as_mut());
        let start = fixture.now();
        nodes.until("lease", &fixture, |_| fixture.now().since(start) > Ns(2 * HEARTBEAT.0));
        let lost = fixture.now();
        drop(nodes.nodes.remove("b"));
        nodes.until("removal", &fixture, |nodes| has_removed(&nodes["a"].changes, "b"));
        assert!(fixture.now().since(lost) < SILENCE);
    }

    #[allow(clippy::print_stderr, reason = "the last line names the case of a failure")]
    #[test]
    fn the_bus_in_memory_passes_the_suite() {
        for (name, case) in CASES {
            // The case of a failure is the last one that is printed.
            eprintln!("{name}");
            case(&mut LocalFixture(LocalBus::default()));
        }
    }
}
