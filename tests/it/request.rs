//! Runs the cases of `tests/request`: worlds, requests, replies, in memory and on a scripted clock.
//!
//! The examples of all services are such cases too. A case is text; tests/request/README.md
//! documents its lines. The nodes are joined by links in memory.

use monitor_backend::{Backend, Error};
use monitor_backends::canned::{BEGINNING, Canned};
use monitor_cluster::links::{InMemoryLinks, InMemoryNetwork, PeerLinks};
use monitor_cluster::message::Message;
use monitor_cluster::request::{ClusterRequests, RequestOutput};
use monitor_cluster::scope;
use monitor_conformance::case::Case;
use monitor_conformance::suite;
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, Sample};
use monitor_monitors::embedded::{EmbeddedMonitors, OpenReader, StatFile};
use monitor_omis::param_type::ParamType;
use monitor_omis::reply_pattern::matches;
use monitor_omis::{Dialect, Node, Status, parse};
use monitor_platform::EventSource;
use monitor_platform::fake::FakePlatform;
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::shared_read::SharedReader;
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, RequestLimits};
use monitor_services::{Class, ServiceSpec, registry};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

struct CaseNode {
    requests: ClusterRequests,
    platform: FakePlatform,
    backend: CaseBackend,
    port: InMemoryLinks,
}

struct RequestCase {
    place: String,
    now: Ns,
    switch: InMemoryNetwork,
    nodes: BTreeMap<u32, CaseNode>,
    /// Node and connection by tool name.
    tools: BTreeMap<String, (u32, u64)>,
    tool: String,
    replies: BTreeMap<(u32, u64), VecDeque<String>>,
}

/// The backend of a node's monitors, which have their own reader, and the files of the node.
#[derive(Clone)]
struct CaseBackend(Arc<Mutex<Canned>>, Arc<Mutex<BTreeMap<String, FileStat>>>);

impl CaseBackend {
    fn new(name: &str) -> Self {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms")).unwrap();
        Self(Arc::new(Mutex::new(backend)), Arc::default())
    }

    fn open(&self, node: u32) -> OpenReader {
        let it = self.clone();
        Box::new(move || Ok(SharedReader::new((node, Box::new(it.clone())), Vec::new())))
    }

    fn stat_file(&self) -> StatFile {
        let it = self.clone();
        Box::new(move |path| it.1.lock().unwrap().get(path).copied().ok_or(StatFailure::Missing))
    }

    /// Handles `file /a 5`, or `file /a` for a deleted file; whether it was such a line.
    fn file(&self, line: &str, now: Ns) -> bool {
        let mut files = self.1.lock().unwrap();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["file", path, size] => {
                let stat = FileStat { size: size.parse().unwrap(), accessed: Ns(0), modified: now };
                let _before = files.insert(path.into(), stat);
            }
            ["file", path] => assert!(files.remove(path).is_some(), "{path} does not exist"),
            _ => return false,
        }
        true
    }
}

impl Backend for CaseBackend {
    fn kind(&self) -> BackendKind {
        self.0.lock().unwrap().kind()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.0.lock().unwrap().probes()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        self.0.lock().unwrap().read(want)
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        self.0.lock().unwrap().describe(processes, want);
    }
}

fn member(node: u32) -> ClusterMember {
    ClusterMember { node: Node(node), name: format!("node{node}") }
}

impl RequestCase {
    fn new(place: &str) -> Self {
        let mut it = Self {
            place: place.into(),
            now: BEGINNING.boot,
            switch: InMemoryNetwork::default(),
            nodes: BTreeMap::new(),
            tools: BTreeMap::new(),
            tool: String::new(),
            replies: BTreeMap::new(),
        };
        it.join(0);
        it.open("a", 0, Dialect::Extended);
        it
    }

    /// Adds a node, and announces it to all.
    fn join(&mut self, node: u32) {
        let name = format!("node{node}");
        let world = CaseBackend::new(&name);
        let epoch = BEGINNING.unix.since(BEGINNING.boot);
        let monitors =
            EmbeddedMonitors::new(name.as_str().into(), epoch, world.open(node), world.stat_file());
        let platform = FakePlatform::new(&name).unwrap().with_monitors(Box::new(monitors));
        let requests = ClusterRequests::single_node(member(node), RequestLimits::default());
        let port = self.switch.join(scope::Node { name, number: node, ..scope::Node::default() });
        self.nodes.insert(node, CaseNode { requests, platform, backend: world, port });
        self.announce_members();
    }

    fn announce_members(&mut self) {
        let members: Vec<ClusterMember> = self.nodes.keys().copied().map(member).collect();
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        for node in nodes {
            self.input(node, EngineInput::Members(members.clone()));
        }
        self.settle();
    }

    fn open(&mut self, name: &str, node: u32, dialect: Dialect) {
        let conn = self.tools.len() as u64;
        self.tools.insert(name.into(), (node, conn));
        self.tool = name.into();
        let tool = Tool::root(SessionId { entry: node, conn }, 1);
        self.input(node, EngineInput::Opened(tool, dialect));
    }

    fn line(&mut self, number: usize, line: &str) {
        let (sign, text) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            "" | "#" | "library" => {}
            // What happens by itself where processes are real.
            "memory" => self.line(number, text),
            ">+" => self.send(text),
            ">" => {
                self.assert_no_replies(number);
                self.send(text);
            }
            "<" => {
                let got = self.replies.entry(self.tools[&self.tool]).or_default().pop_front();
                assert_eq!(got.as_deref(), Some(text), "{}:{number}", self.place);
            }
            "~" => {
                let got = self.replies.entry(self.tools[&self.tool]).or_default().pop_front();
                let is_expected = got.as_deref().is_some_and(|got| matches(text, got));
                assert!(is_expected, "{}:{number}: {got:?} is not {text}", self.place);
            }
            "attach" => {
                let node = self.tools[&self.tool].0;
                self.send(&format!("0 [{node}] attach({text})"));
                let got = self.replies.entry(self.tools[&self.tool]).or_default().pop_front();
                assert_eq!(got, Some(format!("0 [{node}] attach(0)")));
            }
            "strict" => self.open("strict", 0, Dialect::Strict),
            "nodes" => (1..text.parse().unwrap()).for_each(|node| self.join(node)),
            "join" => self.join(text.parse().unwrap()),
            "lose" => {
                let node: u32 = text.parse().unwrap();
                self.nodes.remove(&node);
                self.announce_members();
            }
            "tool" => self.select_tool(text),
            "leave" => {
                let (node, conn) = self.tools.remove(text).unwrap();
                self.input(node, EngineInput::Closed(conn));
                self.settle();
            }
            "at" => {
                self.assert_no_replies(number);
                let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
                self.at(time);
                self.happen(number, rest);
                self.dispatch_events();
            }
            _ => self.happen(number, line),
        }
    }

    /// Selects a tool: `a`, or `b 1` for a new one with the node it connects to.
    fn select_tool(&mut self, text: &str) {
        match text.split_once(' ') {
            Some((name, node)) => self.open(name, node.parse().unwrap(), Dialect::Extended),
            None => self.tool = text.into(),
        }
    }

    fn send(&mut self, text: &str) {
        let (node, conn) = self.tools[&self.tool];
        self.input(node, EngineInput::ClientLine(conn, text.as_bytes().to_vec()));
        self.settle();
    }

    fn at(&mut self, time: &str) {
        let ms: u64 = time.strip_suffix("ms").unwrap().parse().unwrap();
        let passed = Ns(ms * 1_000_000);
        self.now = Ns(BEGINNING.boot.0 + passed.0);
        for place in self.nodes.values_mut() {
            place.platform.advance_to(passed);
            place.backend.0.lock().unwrap().advance_to(passed);
        }
    }

    /// Handles an event: `1: end 7` is on node 1, a line without a number on node 0.
    fn happen(&mut self, number: usize, line: &str) {
        let (node, line) = match line.split_once(": ") {
            Some((node, line)) => (node.parse().unwrap(), line),
            None => (0, line),
        };
        let place = self.nodes.get_mut(&node).unwrap();
        if place.backend.file(line, self.now) {
            return;
        }
        // The backend does not know calls, scheduling and messages: only the platform does.
        let _ = place.backend.0.lock().unwrap().apply(line);
        let happened = place.platform.apply(line);
        happened.unwrap_or_else(|why| panic!("{}:{number}: {why}", self.place));
    }

    /// Gives each engine its events, and a tick.
    fn dispatch_events(&mut self) {
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        for node in nodes {
            let happened = self.nodes.get_mut(&node).unwrap().platform.poll_events(self.now);
            self.input(node, EngineInput::Events(happened));
            self.input(node, EngineInput::Tick);
        }
        self.settle();
    }

    fn input(&mut self, node: u32, input: EngineInput) {
        let place = self.nodes.get_mut(&node).unwrap();
        let acts = place.requests.input(self.now, input, &mut place.platform);
        self.act(node, acts);
    }

    fn act(&mut self, node: u32, acts: Vec<RequestOutput>) {
        for act in acts {
            match act {
                RequestOutput::Reply(conn, line) | RequestOutput::Notice(conn, line) => {
                    self.replies.entry((node, conn)).or_default().push_back(line);
                }
                RequestOutput::Send(Node(to), letter) => {
                    let port = &mut self.nodes.get_mut(&node).unwrap().port;
                    // Messages to a lost node are dropped.
                    let _ = port.send(&format!("node{to}"), Message::Request { message: letter });
                }
            }
        }
    }

    /// Delivers all messages, and what platforms report at once.
    fn settle(&mut self) {
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for node in &nodes {
                let begun = self.nodes.get_mut(node).unwrap().platform.take_begun();
                if !begun.is_empty() {
                    is_quiet = false;
                    self.input(*node, EngineInput::Events(begun));
                }
                while let Ok((from, message)) =
                    self.nodes.get_mut(node).unwrap().port.arrivals().try_recv()
                {
                    is_quiet = false;
                    let Message::Request { message: letter } = message else { continue };
                    let from = Node(from.strip_prefix("node").unwrap().parse().unwrap());
                    let place = self.nodes.get_mut(node).unwrap();
                    let acts =
                        place.requests.receive(self.now, (from, letter), &mut place.platform);
                    self.act(*node, acts);
                }
            }
        }
    }

    #[track_caller]
    fn assert_no_replies(&self, number: usize) {
        let left: Vec<&String> = self.replies.values().flatten().collect();
        assert!(left.is_empty(), "{}:{number}: unexpected replies {left:?}", self.place);
    }
}

fn run(place: &str, text: &str) {
    let mut case = RequestCase::new(place);
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        case.line(number, line);
        last = number;
    }
    case.assert_no_replies(last + 1);
}

#[test]
fn every_example_of_a_service_gets_its_replies() {
    for row in registry::all() {
        for example in row.examples {
            run(&format!("example of {}", row.name), example);
        }
    }
}

/// Runs a case that ends with a request, in both dialects; returns the status of its first answer.
/// A strict session must get its reply from this node and, if nothing was done, that status alone.
fn failure_status(place: &str, text: &str) -> Status {
    let (world, request) = text.rsplit_once("> ").unwrap();
    let reply = |dialect: &str| {
        let mut case = RequestCase::new(place);
        (1..).zip(world.lines()).for_each(|(number, line)| case.line(number, line));
        case.line(0, &format!("> 0 [0] dialect(\"{dialect}\")\n"));
        case.line(0, "< 0 [0] dialect(0)");
        case.line(0, &format!("> {request}"));
        let line = case.replies.entry(case.tools["a"]).or_default().pop_front();
        let line = line.unwrap_or_else(|| panic!("{place}: no reply"));
        (parse::reply(line.as_bytes()).unwrap().0.remove(0), line)
    };
    let (answer, _) = reply("extended");
    let (strict, line) = reply("strict");
    assert_eq!(strict.status, answer.status, "{place}: {line}");
    assert_eq!(strict.nodes, [Node(0)], "{place}: {line}");
    assert!(strict.status.is_success() || strict.results.is_empty(), "{place}: {line}");
    answer.status
}

#[test]
fn every_error_of_a_service_is_shown_by_its_case() {
    for row in registry::all() {
        for error in row.errors.iter().filter(|it| !it.case.is_empty()) {
            let place = format!("{}, {}", row.name, error.when);
            assert_eq!(failure_status(&place, error.case), error.status, "{place}");
        }
    }
}

/// A request of a service about this process, with some value for each other parameter.
fn request_about(row: &ServiceSpec, process: &str) -> String {
    let value = |kind: &ParamType| match kind {
        ParamType::Process | ParamType::Thread => process,
        ParamType::Many(ParamType::Process | ParamType::Thread) => process,
        ParamType::Text => "\"x\"",
        ParamType::Bytes => "[1]",
        ParamType::Float => "1.0",
        ParamType::Node => "0",
        ParamType::Many(ParamType::Any | ParamType::Bytes) => "[]",
        _ => "1",
    };
    let values: Vec<&str> = row.params.iter().map(|param| value(&param.param_type)).collect();
    let action = if row.class() == Class::Event { ": 11 [0] print(1)" } else { "" };
    format!("> 10 [0] {}({}){action}", row.name, values.join(","))
}

#[test]
fn every_service_of_processes_refuses_one_that_it_cannot_serve() {
    let worlds = [
        ("process 7\nattach 7\n", Status::NO_SUCH_OBJECT, "9"),
        ("process 7\nattach 7\nprocess 8\n", Status::NOT_ATTACHED, "8"),
        ("process 7\nattach 7\nat 1ms end 7\n", Status::GONE, "7"),
    ];
    let mut n_services = 0;
    let mut wrong = Vec::new();
    for row in registry::all() {
        if !row.all_errors().any(|it| it.status == Status::GONE) {
            continue;
        }
        n_services += 1;
        for (world, status, process) in worlds {
            let case = format!("{world}{}", request_about(row, process));
            let got = failure_status(&case, &case);
            wrong.extend((got != status).then(|| format!("{case}\n  got {}", got.0)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_services > 30, "only {n_services} services of processes");
}

#[test]
fn every_service_of_lists_serves_the_processes_that_it_can() {
    let world = "process 7\nattach 7\n> 1 [0] stop([7])\n< 1 [0] stop(0)\n";
    let mut n_services = 0;
    for row in registry::all() {
        if row.all_errors().any(|it| it.status == Status::PARTIAL) {
            let case = format!("{world}{}", request_about(row, "[7,9]"));
            assert_eq!(failure_status(&case, &case), Status::PARTIAL, "{case}");
            n_services += 1;
        }
    }
    assert!(n_services > 5, "only {n_services} services of lists");
}

#[test]
fn every_case_gets_its_replies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/request");
    let mut n_cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "txt") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            for (number, case) in text.split("\n---\n").enumerate() {
                run(&format!("{name}, case {}", number + 1), case);
                n_cases += 1;
            }
        }
    }
    assert!(n_cases > 50, "no cases found");
}

/// Runs a case of the conformance suite.
fn run_conformance(case: &Case) {
    let places =
        [("{1}", "71"), ("{2}", "72"), ("{node}", "0"), ("{data}", "4096"), ("{code}", "4096")];
    let mut it = RequestCase::new(&case.file);
    for line in &case.lines {
        let text = places.iter().fold(line.text.clone(), |text, (from, to)| text.replace(from, to));
        it.line(line.number, &text);
    }
    it.assert_no_replies(case.lines.last().map_or(0, |line| line.number));
}

#[test]
fn every_case_of_the_specification_conforms() {
    let cases = suite();
    assert!(cases.len() > 40, "no cases found");
    cases.iter().for_each(run_conformance);
}
