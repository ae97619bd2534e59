//! Gathers in alternating rounds: of the monitor, and of the floor.

use super::sites::DEADLINE;
use crate::service::quantile;
use crate::verdict::{Bar, line};
use monitor_nats::suite::FloorCaller;
use std::time::Instant;

const ROUNDS: usize = 7;
/// Gathers of a round.
const GATHERS: usize = 30;
/// Gathers before the first round.
const WARM_UP: usize = 5;
/// Bytes of a reply of an agent.
pub const REPLY: usize = 2048;

/// Waits until all nodes of the floor reply.
pub async fn floor_replies(caller: &mut FloorCaller, bytes: &[u8], n_nodes: usize) {
    let start = Instant::now();
    while caller.gather(bytes, n_nodes).await.unwrap().is_none() {
        assert!(start.elapsed() < DEADLINE, "the floor does not reply");
    }
}

/// Milliseconds of a gather of the floor.
pub async fn floor_ms(caller: &mut FloorCaller, bytes: &[u8], n_nodes: usize) -> f64 {
    let gathered = caller.gather(bytes, n_nodes).await.unwrap();
    gathered.expect("all replies of the floor").as_secs_f64() * 1e3
}

/// Measures both in alternating rounds, and prints the ratios. Each call returns milliseconds.
pub fn compare(what: &str, mut ours: impl FnMut() -> f64, mut floor: impl FnMut() -> f64) {
    for _ in 0..WARM_UP {
        let _unmeasured = (ours(), floor());
    }
    let (mut of_ours, mut of_floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_floor.extend((0..GATHERS).map(|_| floor()));
        of_ours.extend((0..GATHERS).map(|_| ours()));
    }
    for (name, part, bar) in [("p50", 0.5, 1.25), ("p99", 0.99, 1.5)] {
        let (ours, floor) = (quantile(&mut of_ours, part), quantile(&mut of_floor, part));
        line(&format!("{what}: {name} of the floor"), floor, "ms", Bar::None);
        line(&format!("{what}: {name}"), ours, "ms", Bar::None);
        line(&format!("{what}: {name} / floor"), ours / floor, "x", Bar::AtMost(bar));
    }
}
