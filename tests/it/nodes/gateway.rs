//! A gateway: the records of all nodes, its metrics, its page.

use super::example_cluster::{ExampleCluster, NODES};
use crate::deadline::{deadline, until};
use crate::socket_session::SocketSession;
use crate::web::browser::Browser;
use crate::web::get::Answer;
use crate::web::metrics::promtool;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// The port of the gateway.
const HTTP_PORT: u16 = 19464;

pub fn a_gateway_has_a_record_of_each_node(cluster: &ExampleCluster) {
    let all = cluster.rolled_up(|rollup| {
        let nodes = rollup["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let n_current = nodes.iter().filter(|node| node["record"] == "current").count();
        let user = &rollup["users"][0];
        // The first record of a node has no rates.
        n_current == 3 && user["n_nodes"] == 3 && user["cpu_percent"].is_number()
    });
    let names: Vec<_> = all["nodes"].as_array().unwrap().iter().map(|it| &it["node"]).collect();
    assert_eq!(names, NODES);
    // The three read the same values: a sum has three times what one has.
    let user = &all["users"][0];
    let processes = all["nodes"][0]["totals"]["processes"].as_u64().unwrap();
    assert_eq!((&user["n_nodes"], &user["processes"]), (&json!(3), &json!(3 * processes)), "{all}");

    let refused = SocketSession::connect(&cluster.socket("n2")).call("rollup", &json!({}));
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("no gateway: set cluster.gateway"), "{refused}");

    let address = SocketAddr::new(cluster.host.parse().unwrap(), HTTP_PORT);
    let line = "\nmonitor_cluster_node_up{node=\"n3\"} 1\n";
    let metrics = until(|| {
        let text = String::from_utf8(metrics(address)).unwrap();
        text.contains(line).then_some(text)
    });
    assert!(metrics.contains("\nmonitor_cluster_nodes{state=\"up\"} 3\n"), "{metrics}");
    // Without the token, names of users are not exposed.
    assert!(!metrics.contains("monitor_cluster_user_processes"), "{metrics}");
    let printed = promtool("promtool", &["check", "metrics"], metrics.as_bytes());
    assert_eq!(printed.unwrap_or_default(), "", "{metrics}");
}

pub fn its_page_has_a_map_of_all_nodes(cluster: &ExampleCluster) {
    let status = SocketSession::connect(&cluster.socket("n1")).call("status", &json!({}));
    let http = &status["result"]["http"];
    let token = std::fs::read_to_string(http["token"].as_str().unwrap()).unwrap();
    let address = http["address"].as_str().unwrap();
    let address = format!("{address}/#token={}", token.trim());
    let Some(mut browser) = Browser::open("its_page_has_a_map_of_all_nodes", &address) else {
        return;
    };
    browser.until("document.getElementById('tab-cluster')?.hidden === false");
    let _ = browser.value("document.getElementById('tab-cluster').click()");
    let cells = "[...document.querySelectorAll('.nodemap [role=option]')]";
    browser.until(&format!("{cells}.filter((it) => it.dataset.state === 'up').length === 3"));
    let names = browser.value(&format!("{cells}.map((it) => it.dataset.node).join()"));
    assert_eq!(names, NODES.join(","));
    // Keys select the next node, and what is selected is described.
    let _ = browser.value(&format!("{cells}[0].focus()"));
    browser.key("ArrowRight");
    let caption = "document.querySelector('.nodes figcaption').textContent.startsWith('n2: up')";
    browser.until(caption);
    browser.picture("cluster-light");
    let _ = browser.value("document.getElementById('tab-processes').click()");
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// The metrics of a gateway, without the token.
fn metrics(address: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    Answer::parse(&all).body
}
