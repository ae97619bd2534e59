//! The cases of `tests/request`: a world, requests, replies, in memory and on a scripted clock.
//!
//! The examples of all services are such cases too. A case is text; tests/request/README.md says
//! how it is read.

use monitor::engine::ask::{Input, Limits, Machine, Output};
use monitor::model::id::Ns;
use monitor::omis::{Dialect, Node};
use monitor::service::ctx::Member;
use monitor::service::ground::Happenings;
use monitor::service::ground::scripted::Scripted;
use monitor::service::registry;
use monitor::service::session::right::{SessionId, Tool};
use std::collections::VecDeque;
use std::fs;
use std::path::Path;

struct Case {
    place: String,
    now: Ns,
    ground: Scripted,
    machine: Machine,
    conn: u64,
    replies: VecDeque<String>,
}

impl Case {
    fn new(place: &str) -> Self {
        let own = Member { node: Node(0), name: "node0".into() };
        let mut it = Self {
            place: place.into(),
            now: Ns(0),
            ground: Scripted::new("node0").unwrap(),
            machine: Machine::new(own, Limits::default()),
            conn: 0,
            replies: VecDeque::new(),
        };
        it.open(Dialect::Extended);
        it
    }

    fn open(&mut self, dialect: Dialect) {
        self.conn += 1;
        let session = SessionId { entry: 0, conn: self.conn };
        self.input(Input::Opened(Tool::root(session, 1), dialect));
    }

    fn line(&mut self, number: usize, line: &str) {
        let (sign, text) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            "" | "#" => {}
            ">" => {
                self.nothing_left(number);
                self.input(Input::Said(self.conn, text.as_bytes().to_vec()));
            }
            "<" => {
                let got = self.replies.pop_front();
                assert_eq!(got.as_deref(), Some(text), "{}:{number}", self.place);
            }
            "attach" => {
                self.input(Input::Said(self.conn, format!("0 [0] attach({text})").into_bytes()));
                assert_eq!(self.replies.pop_front().as_deref(), Some("0 [0] attach(0)"));
            }
            "strict" => self.open(Dialect::Strict),
            "at" => {
                self.nothing_left(number);
                let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
                self.at(time);
                self.happen(number, rest);
                let happened = self.ground.happened(self.now);
                self.input(Input::Happened(happened));
            }
            _ => self.happen(number, line),
        }
    }

    fn at(&mut self, time: &str) {
        let ms: u64 = time.strip_suffix("ms").unwrap().parse().unwrap();
        self.now = Ns(ms * 1_000_000);
        self.ground.pass(self.now);
    }

    fn happen(&mut self, number: usize, line: &str) {
        let happened = self.ground.happen(line);
        happened.unwrap_or_else(|why| panic!("{}:{number}: {why}", self.place));
    }

    fn input(&mut self, input: Input) {
        for output in self.machine.input(self.now, input, &mut self.ground) {
            match output {
                Output::Reply(conn, line) | Output::Told(conn, line) => {
                    assert_eq!(conn, self.conn, "{}: another tool is told", self.place);
                    self.replies.push_back(line);
                }
                other => panic!("{}: for another node: {other:?}", self.place),
            }
        }
    }

    #[track_caller]
    fn nothing_left(&self, number: usize) {
        let left = &self.replies;
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
