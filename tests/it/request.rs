//! The cases of `tests/request`: worlds, requests, replies, in memory and on a scripted clock.
//!
//! The examples of all services are such cases too. A case is text; tests/request/README.md says
//! how it is read. Nodes are joined by the switch that stays in memory.

use monitor_backend::{Backend, Error};
use monitor_backends::canned::{BEGINNING, Canned};
use monitor_cluster::link::{Link, Port, Switch};
use monitor_cluster::message::Message;
use monitor_cluster::request::{Act, Requests};
use monitor_cluster::scope;
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::sample::{Process, Sample, Source};
use monitor_model::want::Want;
use monitor_monitors::alone::{Alone, Open, See};
use monitor_omis::{Dialect, Node};
use monitor_platform::Happenings;
use monitor_platform::scripted::Scripted;
use monitor_sampling::file::{Stat, Unseen};
use monitor_sampling::round::Rounds;
use monitor_services::ctx::Member;
use monitor_services::registry;
use monitor_services::requests::{Input, Limits};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

struct Place {
    requests: Requests,
    ground: Scripted,
    world: World,
    port: Port,
}

struct Case {
    place: String,
    now: Ns,
    switch: Switch,
    nodes: BTreeMap<u32, Place>,
    /// By name: the node and the connection.
    tools: BTreeMap<String, (u32, u64)>,
    tool: String,
    replies: BTreeMap<(u32, u64), VecDeque<String>>,
}

/// The world of a node once more, for its monitors, which read for themselves; and its files.
#[derive(Clone)]
struct World(Arc<Mutex<Canned>>, Arc<Mutex<BTreeMap<String, Stat>>>);

impl World {
    fn new(name: &str) -> Self {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms")).unwrap();
        Self(Arc::new(Mutex::new(backend)), Arc::default())
    }

    fn open(&self, node: u32) -> Open {
        let it = self.clone();
        Box::new(move || Ok(Rounds::new((node, Box::new(it.clone())), Vec::new())))
    }

    fn see(&self) -> See {
        let it = self.clone();
        Box::new(move |path| it.1.lock().unwrap().get(path).copied().ok_or(Unseen::Missing))
    }

    /// `file /a 5`, or `file /a` for one that goes; whether it was such a line.
    fn file(&self, line: &str, now: Ns) -> bool {
        let mut files = self.1.lock().unwrap();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["file", path, size] => {
                let stat = Stat { size: size.parse().unwrap(), accessed: Ns(0), modified: now };
                let _before = files.insert(path.into(), stat);
            }
            ["file", path] => assert!(files.remove(path).is_some(), "{path} is not there"),
            _ => return false,
        }
        true
    }
}

impl Backend for World {
    fn source(&self) -> Source {
        self.0.lock().unwrap().source()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.0.lock().unwrap().probes()
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        self.0.lock().unwrap().read(want)
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        self.0.lock().unwrap().describe(processes, want);
    }
}

fn member(node: u32) -> Member {
    Member { node: Node(node), name: format!("node{node}") }
}

impl Case {
    fn new(place: &str) -> Self {
        let mut it = Self {
            place: place.into(),
            now: BEGINNING.boot,
            switch: Switch::default(),
            nodes: BTreeMap::new(),
            tools: BTreeMap::new(),
            tool: String::new(),
            replies: BTreeMap::new(),
        };
        it.come(0);
        it.open("a", 0, Dialect::Extended);
        it
    }

    /// A node comes, and all learn of it.
    fn come(&mut self, node: u32) {
        let name = format!("node{node}");
        let world = World::new(&name);
        let epoch = BEGINNING.unix.since(BEGINNING.boot);
        let monitors = Alone::new(name.as_str().into(), epoch, world.open(node), world.see());
        let ground = Scripted::new(&name).unwrap().with(Box::new(monitors));
        let requests = Requests::alone(member(node), Limits::default());
        let port = self.switch.join(scope::Node { name, number: node, ..scope::Node::default() });
        self.nodes.insert(node, Place { requests, ground, world, port });
        self.meet();
    }

    fn meet(&mut self) {
        let members: Vec<Member> = self.nodes.keys().copied().map(member).collect();
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        for node in nodes {
            self.input(node, Input::Members(members.clone()));
        }
        self.settle();
    }

    fn open(&mut self, name: &str, node: u32, dialect: Dialect) {
        let conn = self.tools.len() as u64;
        self.tools.insert(name.into(), (node, conn));
        self.tool = name.into();
        let tool = Tool::root(SessionId { entry: node, conn }, 1);
        self.input(node, Input::Opened(tool, dialect));
    }

    fn line(&mut self, number: usize, line: &str) {
        let (sign, text) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            "" | "#" => {}
            ">" => {
                self.nothing_left(number);
                self.say(text);
            }
            "<" => {
                let got = self.replies.entry(self.tools[&self.tool]).or_default().pop_front();
                assert_eq!(got.as_deref(), Some(text), "{}:{number}", self.place);
            }
            "attach" => {
                let node = self.tools[&self.tool].0;
                self.say(&format!("0 [{node}] attach({text})"));
                let got = self.replies.entry(self.tools[&self.tool]).or_default().pop_front();
                assert_eq!(got, Some(format!("0 [{node}] attach(0)")));
            }
            "strict" => self.open("strict", 0, Dialect::Strict),
            "nodes" => (1..text.parse().unwrap()).for_each(|node| self.come(node)),
            "come" => self.come(text.parse().unwrap()),
            "go" => {
                let node: u32 = text.parse().unwrap();
                self.nodes.remove(&node);
                self.meet();
            }
            "tool" => self.turn(text),
            "leave" => {
                let (node, conn) = self.tools.remove(text).unwrap();
                self.input(node, Input::Closed(conn));
                self.settle();
            }
            "at" => {
                self.nothing_left(number);
                let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
                self.at(time);
                self.happen(number, rest);
                self.look();
            }
            _ => self.happen(number, line),
        }
    }

    /// `a`, or `b 1` if it is new: a tool, and the node that it is connected to.
    fn turn(&mut self, text: &str) {
        match text.split_once(' ') {
            Some((name, node)) => self.open(name, node.parse().unwrap(), Dialect::Extended),
            None => self.tool = text.into(),
        }
    }

    fn say(&mut self, text: &str) {
        let (node, conn) = self.tools[&self.tool];
        self.input(node, Input::Said(conn, text.as_bytes().to_vec()));
        self.settle();
    }

    fn at(&mut self, time: &str) {
        let ms: u64 = time.strip_suffix("ms").unwrap().parse().unwrap();
        let passed = Ns(ms * 1_000_000);
        self.now = Ns(BEGINNING.boot.0 + passed.0);
        for place in self.nodes.values_mut() {
            place.ground.pass(passed);
            place.world.0.lock().unwrap().pass(passed);
        }
    }

    /// `1: end 7` happens on node 1, a line without a number on node 0.
    fn happen(&mut self, number: usize, line: &str) {
        let (node, line) = match line.split_once(": ") {
            Some((node, line)) => (node.parse().unwrap(), line),
            None => (0, line),
        };
        let place = self.nodes.get_mut(&node).unwrap();
        if place.world.file(line, self.now) {
            return;
        }
        // Calls, turns and messages are no readings: only the ground knows them.
        let _ = place.world.0.lock().unwrap().happen(line);
        let happened = place.ground.happen(line);
        happened.unwrap_or_else(|why| panic!("{}:{number}: {why}", self.place));
    }

    /// What happened is told, and deadlines are kept.
    fn look(&mut self) {
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        for node in nodes {
            let happened = self.nodes.get_mut(&node).unwrap().ground.happened(self.now);
            self.input(node, Input::Happened(happened));
            self.input(node, Input::Tick);
        }
        self.settle();
    }

    fn input(&mut self, node: u32, input: Input) {
        let place = self.nodes.get_mut(&node).unwrap();
        let acts = place.requests.input(self.now, input, &mut place.ground);
        self.act(node, acts);
    }

    fn act(&mut self, node: u32, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Reply(conn, line) | Act::Told(conn, line) => {
                    self.replies.entry((node, conn)).or_default().push_back(line);
                }
                Act::Send(Node(to), letter) => {
                    let port = &mut self.nodes.get_mut(&node).unwrap().port;
                    // Who is gone hears nothing.
                    let _ = port.send(&format!("node{to}"), Message::Request { letter });
                }
            }
        }
    }

    /// Lets all letters arrive.
    fn settle(&mut self) {
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for node in &nodes {
                while let Ok((from, message)) =
                    self.nodes.get_mut(node).unwrap().port.arrivals().try_recv()
                {
                    is_quiet = false;
                    let Message::Request { letter } = message else { continue };
                    let from = Node(from.strip_prefix("node").unwrap().parse().unwrap());
                    let place = self.nodes.get_mut(node).unwrap();
                    let acts = place.requests.receive(self.now, (from, letter), &mut place.ground);
                    self.act(*node, acts);
                }
            }
        }
    }

    #[track_caller]
    fn nothing_left(&self, number: usize) {
        let left: Vec<&String> = self.replies.values().flatten().collect();
        assert!(left.is_empty(), "{}:{number}: nobody waits for {left:?}", self.place);
    }
}

fn run(place: &str, text: &str) {
    let mut case = Case::new(place);
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        case.line(number, line);
        last = number;
    }
    case.nothing_left(last + 1);
}

#[test]
fn every_example_of_a_service_is_answered_as_it_says() {
    for row in registry::all() {
        for example in row.examples {
            run(&format!("example of {}", row.name), example);
        }
    }
}

#[test]
fn every_case_is_answered_as_it_says() {
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
    assert!(n_cases >= 1, "no case was found");
}
