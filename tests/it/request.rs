//! Runs the cases of `tests/request`: worlds, requests, replies, in memory and on a scripted clock.
//!
//! The examples of all services are such cases too. A case is text; tests/request/README.md
//! documents its lines. The nodes are members of a bus in memory.

use crate::request_nodes::RequestNodes;
use monitor_conformance::case::Case;
use monitor_conformance::suite;
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_omis::param_type::ParamType;
use monitor_omis::reply_pattern::matches;
use monitor_omis::{Dialect, Node, Status, parse};
use monitor_services::requests::EngineInput;
use monitor_services::{Class, ServiceSpec, registry};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

struct RequestCase {
    place: String,
    nodes: RequestNodes,
    /// Node and connection by tool name.
    tools: BTreeMap<String, (u32, u64)>,
    tool: String,
}

impl RequestCase {
    fn new(place: &str) -> Self {
        let mut it = Self {
            place: place.into(),
            nodes: RequestNodes::new(),
            tools: BTreeMap::new(),
            tool: String::new(),
        };
        it.nodes.join(0);
        it.open("a", 0, Dialect::Extended);
        it
    }

    fn open(&mut self, name: &str, node: u32, dialect: Dialect) {
        let conn = self.tools.len() as u64;
        self.tools.insert(name.into(), (node, conn));
        self.tool = name.into();
        let tool = Tool::root(SessionId { entry: node, conn }, 1);
        self.nodes.input(node, EngineInput::Opened(tool, dialect));
    }

    /// The next reply of the selected tool.
    fn reply(&mut self) -> Option<String> {
        self.nodes.replies.entry(self.tools[&self.tool]).or_default().pop_front()
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
                let got = self.reply();
                assert_eq!(got.as_deref(), Some(text), "{}:{number}", self.place);
            }
            "~" => {
                let got = self.reply();
                let is_expected = got.as_deref().is_some_and(|got| matches(text, got));
                assert!(is_expected, "{}:{number}: {got:?} is not {text}", self.place);
            }
            "attach" => {
                let node = self.tools[&self.tool].0;
                self.send(&format!("0 [{node}] attach({text})"));
                assert_eq!(self.reply(), Some(format!("0 [{node}] attach(0)")));
            }
            "strict" => self.open("strict", 0, Dialect::Strict),
            "nodes" => (1..text.parse().unwrap()).for_each(|node| self.nodes.join(node)),
            "join" => self.nodes.join(text.parse().unwrap()),
            "lose" => self.nodes.lose(text.parse().unwrap()),
            "tool" => self.select_tool(text),
            "leave" => {
                let (node, conn) = self.tools.remove(text).unwrap();
                self.nodes.input(node, EngineInput::Closed(conn));
                self.nodes.settle();
            }
            "at" => {
                self.assert_no_replies(number);
                let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
                let ms: u64 = time.strip_suffix("ms").unwrap().parse().unwrap();
                self.nodes.advance_to(Ns(ms * 1_000_000));
                self.happen(number, rest);
                self.nodes.dispatch_events();
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
        self.nodes.input(node, EngineInput::ClientLine(conn, text.as_bytes().to_vec()));
        self.nodes.settle();
    }

    /// Handles an event: `1: end 7` is on node 1, a line without a number on node 0.
    fn happen(&mut self, number: usize, line: &str) {
        let (node, line) = match line.split_once(": ") {
            Some((node, line)) => (node.parse().unwrap(), line),
            None => (0, line),
        };
        let happened = self.nodes.happen(node, line);
        happened.unwrap_or_else(|why| panic!("{}:{number}: {why}", self.place));
    }

    #[track_caller]
    fn assert_no_replies(&self, number: usize) {
        let left: Vec<&String> = self.nodes.replies.values().flatten().collect();
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
        case.tool = "a".into();
        let line = case.reply().unwrap_or_else(|| panic!("{place}: no reply"));
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

#[test]
fn actions_of_a_rule_on_other_nodes_are_bounded_and_counted() {
    let (raise, raised) = (["5 [0] raise_event(8,[])"; 103], ["5 [0] raise_event(0)"; 103]);
    let refused = "< 3 [1] raise_event(109,0,\"at most 100 actions a second go to other nodes\")\n";
    let case = format!(
        "nodes 2\n\
         > 1 [] define_user_event(8)\n\
         < 1 [0,1] define_user_event(0)\n\
         > 2 [0] user_event(8): 3 [1] raise_event(8,[])\n\
         < 2 [0] user_event(0)\n\
         > 4 [0] enable(2)\n\
         < 4 [0] enable(0)\n\
         > {}\n\
         < {}\n\
         {}\
         at 1000ms process 9\n\
         < 0 [0] error(407,3,\"actions on other nodes were dropped: the rule fires too often\")\n\
         > 5 [0] raise_event(8,[])\n\
         < 5 [0] raise_event(0)\n",
        raise.join("; "),
        raised.join("; "),
        refused.repeat(3),
    );
    run("a rule that fires too often", &case);
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
