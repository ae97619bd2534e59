//! Requests: lines that are read and printed, and lines that an engine on a scripted node carries
//! out.

use super::input::{Random, input};
use super::trial::{Border, MAX_MEMORY, run};
use super::{line, lines};
use monitor_backends::canned::{BEGINNING, Canned};
use monitor_cluster::request::ClusterRequests;
use monitor_event::right::{SessionId, Tool};
use monitor_model::Ns;
use monitor_monitors::embedded::EmbeddedMonitors;
use monitor_omis::{Dialect, Node};
use monitor_platform::EventSource as _;
use monitor_platform::fake::FakePlatform;
use monitor_sampling::file_watch::StatFailure;
use monitor_sampling::shared_read::SharedReader;
use monitor_services::context::ClusterMember;
use monitor_services::registry;
use monitor_services::requests::{EngineInput, RequestLimits};

const WORDS: &[&[u8]] = &[
    b"10 ",
    b"[",
    b"]",
    b"(",
    b")",
    b",",
    b";",
    b": ",
    b"$1",
    b"$0",
    b"\"a\\n\"",
    b"-",
    b"1.5e3",
    b"0x7f",
    b"nan",
    b"p_1_2",
    b"#2:beef",
    b"stop",
    b"process_info",
    b" ",
    b"\n",
    "\u{e9}".as_bytes(),
];
/// Lines that one engine receives.
const LINES: u64 = 256;
/// The processes of the node.
const WORLD: [&str; 3] = ["process 7 comm=a", "process 8 comm=b ppid=7", "callable 7 f"];

/// Whole requests of the cases and of the examples of services.
fn samples() -> Vec<Vec<u8>> {
    let examples = registry::all().flat_map(|row| row.examples.iter());
    let texts = examples.flat_map(|text| text.lines());
    let of_services = texts.filter_map(|it| it.strip_prefix("> ")).map(|it| it.as_bytes().to_vec());
    lines("request", "> ").into_iter().chain(of_services).collect()
}

#[test]
fn any_line_is_read_or_refused_and_read_again_the_same() {
    let cases = ["+ ", "- ", "< ", "> ", "= "].map(|sign| lines("request/language", sign));
    let samples: Vec<Vec<u8>> = cases.into_iter().flatten().chain(samples()).collect();
    assert!(samples.len() > 100, "{}", samples.len());
    samples.iter().for_each(|it| line::check(it));
    let border = Border { name: "lines", max_memory: MAX_MEMORY };
    run(border, |random| input(random, &samples, WORDS), line::check);
}

/// The engine of a node, and its tool.
struct OneNode {
    requests: ClusterRequests,
    platform: FakePlatform,
    now: Ns,
    left: u64,
}

impl OneNode {
    fn new() -> Self {
        let epoch = BEGINNING.unix.since(BEGINNING.boot);
        let open = || {
            let backend = Canned::scripted("host node0\nevery 0ms\nprocess 7").unwrap();
            Ok(SharedReader::new((0, Box::new(backend)), Vec::new()))
        };
        let stat = |_: &str| Err(StatFailure::Missing);
        let monitors = EmbeddedMonitors::new("node0".into(), epoch, Box::new(open), Box::new(stat));
        let mut platform = FakePlatform::new("node0").unwrap().with_monitors(Box::new(monitors));
        WORLD.iter().for_each(|line| platform.apply(line).unwrap());
        let member = ClusterMember { node: Node(0), name: "node0".to_owned() };
        let requests = ClusterRequests::single_node(member.clone(), RequestLimits::default());
        let mut it = Self { requests, platform, now: BEGINNING.boot, left: LINES };
        it.input(EngineInput::Members(vec![member]));
        let tool = Tool::root(SessionId { entry: 0, conn: 0 }, 1);
        it.input(EngineInput::Opened(tool, Dialect::Extended));
        it.line(b"0 [0] attach([7])");
        it
    }

    fn input(&mut self, input: EngineInput) {
        drop(self.requests.input(self.now, input, &mut self.platform));
    }

    /// Sends a line; then something happens, and time passes.
    fn line(&mut self, line: &[u8]) {
        self.input(EngineInput::ClientLine(0, line.to_vec()));
        self.now = Ns(self.now.0 + 1_000_000);
        self.platform.advance_to(self.now.since(BEGINNING.boot));
        let events = self.platform.poll_events(self.now);
        self.input(EngineInput::Events(events));
        self.input(EngineInput::Tick);
        self.left = self.left.saturating_sub(1);
    }
}

#[test]
fn any_line_is_carried_out_or_refused() {
    let samples = samples();
    let mut node = OneNode::new();
    let border = Border { name: "requests", max_memory: MAX_MEMORY };
    let make = |random: &mut Random| input(random, &samples, WORDS);
    run(border, make, |bytes| {
        // As the socket does.
        for line in bytes.split(|it| *it == b'\n') {
            node.line(line);
        }
        if node.left == 0 {
            node = OneNode::new();
        }
    });
}
