//! Costs of parsing, printing and answering requests.

use crate::measure::medians;
use crate::verdict::{Bar, line};
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_omis::{Dialect, Node, parse, print};
use monitor_platform::fake::FakePlatform;
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use std::hint::black_box;

/// A stored request as a debugger sends it: 100 bytes.
const REQUEST: &str = concat!(
    "11 [1,2] process_signal([1123],[9,15]): ",
    "12 [$0] print($1,$2,\"received\"); 13 [$0] stack_backtrace($1)",
);
const SMALL: &str = "10 [0] stop([1123])";
const ANSWERED: &str = "10 [] number_of_nodes()";
const REPLY: &str = "12 [1] print(0,[1123,15,\"got it\"]); \
                     13 [1] stack_backtrace(0,[65032,32768,65100,32800,65200,32832,65300,32864])";
/// Lines in one measurement.
const LINES: usize = 10_000;
const ROUNDS: usize = 21;

/// Prints microseconds per line.
pub fn run() {
    let reply = parse::reply(REPLY.as_bytes()).unwrap();
    let read = |text: &'static str| {
        many(move || drop(parse::request(black_box(text).as_bytes(), Dialect::Extended).unwrap()))
    };
    let mut engine = RequestEngine::new(member(), RequestLimits::default());
    let mut platform = FakePlatform::new("node0").unwrap();
    let tool = Tool::root(SessionId::default(), 1);
    let _ = engine.input(Ns(0), EngineInput::Opened(tool, Dialect::Extended), &mut platform);
    let mut answer = |text: &'static str| {
        let input = EngineInput::ClientLine(0, black_box(text).as_bytes().to_vec());
        let reply = engine.input(Ns(0), input, &mut platform);
        assert!(matches!(black_box(&reply)[..], [EngineOutput::Reply(..)]));
    };
    let taken = medians(
        ROUNDS,
        &mut [
            ("read a request", read(REQUEST)),
            ("read a small request", read(SMALL)),
            ("read a reply", many(|| drop(parse::reply(black_box(REPLY).as_bytes()).unwrap()))),
            ("write a reply", many(|| drop(print::reply(black_box(&reply), Dialect::Extended)))),
            ("parse, bind and answer a request", many(|| answer(ANSWERED))),
        ],
    );
    let lengths = [REQUEST.len(), SMALL.len(), REPLY.len(), REPLY.len(), ANSWERED.len()];
    let bars = [Bar::AtMost(2.0), Bar::None, Bar::None, Bar::None, Bar::AtMost(5.0)];
    for (((name, taken), length), bar) in taken.iter().zip(lengths).zip(bars) {
        line(&format!("{name} of {length} bytes"), taken / LINES as f64, "us", bar);
    }
}

fn member() -> ClusterMember {
    ClusterMember { node: Node(0), name: "node0".into() }
}

fn many<'a>(mut once: impl FnMut() + 'a) -> Box<dyn FnMut() + 'a> {
    Box::new(move || {
        for _ in 0..LINES {
            once();
        }
    })
}
