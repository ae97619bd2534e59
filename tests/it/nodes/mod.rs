//! A cluster of three by the script of docs/examples, with TLS and the keys of `cluster init`: a
//! real server, a node that is killed, a server that goes and comes back.
//!
//! What a cluster shows is awaited, not expected at once: on a machine without time for it a node
//! is removed as if it were dead, and joins again.

mod example_cluster;
#[cfg(feature = "tls")]
mod files;
mod followed;
mod gateway;
mod kernel_rules;
#[cfg(feature = "tls")]
mod migrations;
mod namespace_cluster;
mod namespaces;
mod pmix_targets;
mod ranks;
mod replies;
#[cfg(feature = "tls")]
mod sent_files;
mod totals;

use example_cluster::{ExampleCluster, NODES, REQUEST, has_server};
use followed::Followed;

#[test]
fn three_nodes_survive_a_killed_node_and_a_server_that_comes_back() {
    const TEST: &str = "three_nodes_survive_a_killed_node_and_a_server_that_comes_back";
    if !has_server(TEST) {
        return;
    }
    let cluster = ExampleCluster::start();
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));
    replies::many_nodes_reply_as_one(&cluster);
    replies::rows_have_the_name_of_their_node(&cluster);
    followed::samples_of_many_nodes_follow_each_other(&cluster);
    followed::each_node_has_a_recording(&cluster);
    followed::nodes_keep_a_monitor_until_it_is_cancelled(&cluster);
    followed::a_monitor_with_a_name_is_that_of_each_node(&cluster);
    followed::what_a_node_executes_ends_with_the_tool(&cluster);
    replies::groups_are_those_of_the_user(&cluster);
    replies::users_of_other_nodes_only_observe(&cluster);
    replies::commands_leave_no_connections(&cluster);
    replies::a_session_of_the_cluster_has_all_nodes(&cluster);
    #[cfg(feature = "tls")]
    let mut members = files::members_are_nodes_of_the_files(&cluster);
    #[cfg(feature = "tls")]
    sent_files::a_file_goes_from_node_to_node(&cluster);
    #[cfg(feature = "tls")]
    sent_files::other_bytes_than_those_announced_are_refused(&cluster);
    replies::doctor_finds_nothing(&cluster);
    gateway::a_gateway_has_a_record_of_each_node(&cluster);
    gateway::its_page_has_a_map_of_all_nodes(&cluster);
    let mut watch = Followed::start(&cluster, "n1", &followed::watch("n[1-3]", "json"));
    watch.prints_until("rows", |watch| NODES.iter().all(|node| watch.has_row_of(node)));

    cluster.kill("nodes/n3/pid");
    // A node of which it is not known yet that it is dead, or that is no member any more.
    let within = ["ask", "--nodes", "n[1-3]", "--within", "2s", REQUEST];
    cluster.prints(("n1", &within), 4, "monitor: n3: ");
    cluster.sees("n1", ["up", "up", "dead"]);
    #[cfg(feature = "tls")]
    files::has_state(&mut members, "n3", "down(dead)");
    // Its last record remains, with its age, and is in no sum.
    let late = cluster.rolled_up(|rollup| {
        let node = &rollup["nodes"][2];
        node["record"] == "late" && node["state"] == "dead"
    });
    assert_eq!(late["users"][0]["n_nodes"], 2, "{late}");

    cluster.kill("server.pid");
    let doctor = cluster.doctor("n1");
    cluster.prints(("n1", &doctor.each_ref().map(String::as_str)), 3, "FAILED  reachable");
    // Their own users are served, and a node that starts now waits for the server.
    cluster.prints(("n2", &["ask", REQUEST]), 0, "number_of_nodes(0,");
    let without_server = ["ask", "--nodes", "@*", "--within", "1s", REQUEST];
    cluster.prints(("n1", &without_server), 1, ": missing: no reply");
    // This one sees the processes of the machine.
    cluster.script_with("procfs", &["node", "n3"]);
    cluster.prints(("n3", &["nodes"]), 0, "connecting");
    cluster.script(&["server"]);
    NODES.iter().for_each(|node| cluster.sees(node, ["up", "up", "up"]));
    // The command goes on all the time.
    watch.prints_until("n3 again", |watch| {
        let text = watch.errors();
        text.contains("n3: is dead: removed from the cluster\n")
            && text.lines().any(|line| line.ends_with("n3: is followed again"))
    });
    watch.forget_rows();
    watch.prints_until("rows again", |watch| NODES.iter().all(|node| watch.has_row_of(node)));
    let errors = watch.interrupt();
    assert!(errors.contains("monitor: 3 nodes: "), "{errors}");

    #[cfg(feature = "tls")]
    files::has_state(&mut members, "n3", "up");
    ranks::ranks_on_nodes_are_those_of_one_job(&cluster);
    ranks::a_total_of_a_job_acts_on_its_ranks(&cluster);
    ranks::a_rank_that_starts_later_is_watched(&cluster);
    ranks::ranks_of_other_nodes_are_targets(&cluster);
    gateway::its_page_shows_the_ranks_of_a_job(&cluster);

    // In order, a node is not dead but has left.
    cluster.script(&["stop"]);
}
