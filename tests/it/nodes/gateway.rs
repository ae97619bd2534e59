//! A gateway: the records of all nodes, its metrics, its page.

use super::example_cluster::{ExampleCluster, NODES};
use super::ranks::Ranks;
use crate::deadline::{deadline, until};
use crate::socket_session::SocketSession;
use crate::web::browser::Browser;
use crate::web::get::Answer;
use crate::web::metrics::promtool;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// The panel of the cluster on the page of n1; `None` without Chromium.
fn opened(test: &str, cluster: &ExampleCluster) -> Option<Browser> {
    let status = SocketSession::connect(&cluster.socket("n1")).call("status", &json!({}));
    let http = &status["result"]["http"];
    let token = std::fs::read_to_string(http["token"].as_str().unwrap()).unwrap();
    let address = http["address"].as_str().unwrap();
    let mut browser = Browser::open(test, &format!("{address}/#token={}", token.trim()))?;
    browser.until("document.getElementById('tab-cluster')?.hidden === false");
    let _ = browser.value("document.getElementById('tab-cluster').click()");
    Some(browser)
}

/// The job is on n3 alone.
pub fn its_page_shows_the_ranks_of_a_job(cluster: &ExampleCluster) {
    let job = format!("it-page-{}", std::process::id());
    let ranks = Ranks::start(&job, &cluster.folder.join("it-page-rank"));
    let of = |uid: u32| format!("/ranks?job=mpi:{job}&uid={uid}");
    // Without the token, jobs of others are not shown, and no node is asked.
    let event = first_event(SocketAddr::new(cluster.host.parse().unwrap(), HTTP_PORT), &of(0));
    assert_eq!((&event["is_listed"], &event["ranks"]), (&json!(false), &json!([])), "{event}");
    let Some(mut browser) = opened("its_page_shows_the_ranks_of_a_job", cluster) else { return };
    let button = format!(
        "[...document.querySelectorAll('#cluster button')].find((it) => \
                          it.textContent === 'mpi:{job}')"
    );
    browser.until(&format!("Boolean({button})"));
    let _ = browser.value(&format!("{button}.click()"));
    let rows = "[...document.querySelectorAll('.ranks > .scroll tbody tr')]";
    // CPU use needs two replies.
    browser.until(&format!("{rows}.length === 2 && {rows}[1].cells[4].textContent.endsWith('%')"));
    let cells = |column: u32| format!("{rows}.map((it) => it.cells[{column}].textContent).join()");
    assert_eq!(browser.value(&cells(0)), "0,1");
    assert_eq!(browser.value(&cells(1)), "n3,n3");
    assert_eq!(browser.value(&cells(2)), ranks.pids().map(|pid| pid.to_string()).join(","));
    assert_eq!(browser.value(&cells(10)), "sleep,sleep");
    let facts = "document.querySelector('.ranks ul').textContent.startsWith('2 ranks')";
    browser.until(facts);
    let plots = "document.querySelectorAll('.ranks .plots .uplot').length === 2";
    browser.until(plots);
    browser.picture("cluster-ranks");
    drop(ranks);
    let said = "document.querySelector('.ranks [role=status]').textContent";
    browser.until(&format!("{said} === 'the job has ended; these are the last values'"));
    assert_eq!(browser.value(&cells(0)), "0,1");
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// The first event of a stream, without the token.
fn first_event(address: SocketAddr, path: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    // HTTP/1.0 has no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let data = lines.into_iter().find_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    serde_json::from_str(&data.expect("an event")).unwrap()
}

pub fn its_page_has_a_map_of_all_nodes(cluster: &ExampleCluster) {
    let Some(mut browser) = opened("its_page_has_a_map_of_all_nodes", cluster) else { return };
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
