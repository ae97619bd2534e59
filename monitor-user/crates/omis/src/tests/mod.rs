//! Properties of every line: printing and parsing are inverse, and no input panics or allocates
//! more than its limits.

mod arbitrary;

use super::{Basic, Dialect, Fault, Node, Request, Status, caret, limit, parse};
use proptest::test_runner::{Config, RngSeed};
use proptest::{prop_assert_eq, proptest};

/// The same cases in every run, and no failure files next to the sources.
fn config() -> Config {
    Config {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1996),
        ..Config::default()
    }
}

fn read(line: &str) -> Result<Request, Fault> {
    parse::request(line.as_bytes(), Dialect::Extended)
}

/// Prints a request with the commas of the specification's grammar, which its examples omit.
fn with_commas(request: &Request) -> String {
    let basic = |basic: &Basic| {
        let id = basic.id.map(|id| format!(" {} ,\t", id.0));
        let call = Basic { id: None, ..basic.clone() }.to_string();
        let call = match &basic.nodes {
            Some(_) => call.replacen("] ", " ] , ", 1),
            None => call,
        };
        format!("{}{}", id.unwrap_or_default(), call)
    };
    let stage = |stage: &super::Stage| Vec::from_iter(stage.0.iter().map(basic)).join(",");
    let stages = Vec::from_iter(request.stages.iter().map(stage)).join(";");
    match &request.event {
        Some(event) => format!("{}:{stages}\r\n", basic(event)),
        None => format!("{stages}\r\n"),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_printed_request_parses_to_the_same_request(request in arbitrary::request()) {
        prop_assert_eq!(read(&request.to_string()), Ok(request));
    }

    #[test]
    fn optional_commas_do_not_change_a_request(request in arbitrary::request()) {
        prop_assert_eq!(read(&with_commas(&request)), Ok(request));
    }

    #[test]
    fn a_printed_reply_parses_to_the_same_reply(reply in arbitrary::reply()) {
        prop_assert_eq!(parse::reply(reply.to_string().as_bytes()), Ok(reply));
    }

    #[test]
    fn a_strict_reply_parses_and_has_no_extensions(reply in arbitrary::reply()) {
        let line = super::print::reply(&reply, Dialect::Strict);
        let read = parse::reply(line.as_bytes()).expect("a printed reply parses");
        prop_assert_eq!(super::print::reply(&read, Dialect::Strict), read.to_string());
    }
}

/// The generator of Marsaglia, "Xorshift RNGs": the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).expect("less than a usize")
    }
}

const SEEDS: &[&str] = &[
    "10 [0] process_terminated([2]): 11 [0] print([$1,$time]), 12 [$0] stop($1)",
    r#"1, [0,1], f(-1,0x7f,1.5e-3,"a\n\033",[[],[1]],p_1_2,#2:beef,nan,-inf); stop([n_1])"#,
    r#"7 [0,1] stop(301,3,"no such process"); 8 [] read_memory(0,[1,2,3])"#,
];
const PIECES: &[&str] = &[
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ":",
    "$",
    "#",
    "\"",
    "\\",
    "-",
    "1",
    "0x",
    "1e",
    ".",
    "\n",
    " ",
    "\0",
    "\u{e9}",
    "stop",
    "nan",
    "p_1",
    "#9:",
    "18446744073709551616",
    "$x",
    "[[[[[[[[[",
];

fn hostile(random: &mut Random) -> Vec<u8> {
    let mut line = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(line.len() + 1);
        match random.below(4) {
            0 => line.truncate(at),
            1 => line.insert(at, u8::try_from(random.below(256)).expect("less than 256")),
            2 => drop(line.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
            _ => drop(line.drain(at..line.len().min(at + random.below(8)))),
        }
    }
    line
}

#[track_caller]
fn check_fault(line: &[u8], fault: &Fault) {
    assert!(fault.at <= line.len(), "{}", line.escape_ascii());
    assert!(fault.status.name().is_some() && !fault.expected.is_empty() && !fault.found.is_empty());
    let reply = fault.reply(Node(0), Dialect::Extended);
    assert_eq!(parse::reply(reply.to_string().as_bytes()), Ok(reply));
    assert_eq!(caret::render(line, fault).matches('\n').count(), 1);
}

#[test]
fn the_parser_never_panics() {
    let mut random = Random(1996);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..50_000 {
        let line = hostile(&mut random);
        for dialect in [Dialect::Extended, Dialect::Strict] {
            match parse::request(&line, dialect) {
                Ok(request) => {
                    read += 1;
                    assert_eq!(super::tests::read(&request.to_string()), Ok(request));
                }
                Err(fault) => {
                    refused += 1;
                    check_fault(&line, &fault);
                }
            }
        }
        if let Err(fault) = parse::reply(&line) {
            check_fault(&line, &fault);
        }
    }
    assert!(
        read > 1000 && refused > 1000,
        "{read} read, {refused} refused: the sample is one-sided"
    );
}

/// Checks the status and returns the peak of allocated bytes while a line was refused.
#[track_caller]
fn refused_within(line: &str, status: Status) -> u64 {
    let mut fault = None;
    let used = allocation_counter::measure(|| fault = read(line).err());
    assert_eq!(fault.map(|fault| fault.status), Some(status));
    used.bytes_max
}

#[test]
fn nothing_is_allocated_for_declared_lengths() {
    let nested = format!("1 [0] f({}", "[".repeat(1_000_000));
    assert!(refused_within(&nested, Status::LIMIT) < 1024);
    assert!(refused_within("1 [0] f(#1073741824:00)", Status::LEX) < 1024);
    assert!(refused_within("1 [0] f(#18446744073709551615:00)", Status::LEX) < 1024);
    assert!(refused_within(&" ".repeat(limit::REQUEST.line + 1), Status::LIMIT) < 1024);
    let long_name = format!("1 [0] {}(1)", "a".repeat(1_000_000));
    assert!(refused_within(&long_name, Status::LIMIT) < 1024);
}

#[test]
fn each_limit_is_exact() {
    let depth = |n: usize| format!("f({}{})", "[".repeat(n), "]".repeat(n));
    let elements = |n: usize| format!("f([{}])", vec!["1"; n].join(","));
    let members = |n: usize| vec!["f()"; n].join(",");
    let name = |n: usize| format!("{}()", "f".repeat(n));
    let line = |n: usize| format!("f(){}", " ".repeat(n - 3));
    let check = |text: &dyn Fn(usize) -> String, most: usize| {
        assert!(read(&text(most)).is_ok());
        assert_eq!(read(&text(most + 1)).unwrap_err().status, Status::LIMIT);
    };
    check(&depth, limit::REQUEST.depth);
    check(&elements, limit::REQUEST.elements);
    check(&members, limit::REQUEST.members);
    check(&name, limit::NAME);
    check(&line, limit::REQUEST.line);
}
