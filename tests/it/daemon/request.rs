//! Requests through the socket of the service: sessions and events.

use crate::served::Served;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

/// A child that ends when its input is closed, or with the test.
struct Cat(Child);

impl Cat {
    fn start() -> Self {
        let cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(cat.unwrap())
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn calls_and_requests_share_a_connection() {
    let service = Served::start("test");
    let mut talk = service.connect();
    assert_eq!(talk.request("10 [] number_of_nodes()"), "10 [0] number_of_nodes(0,1)");
    assert_eq!(talk.call("hello", "{}")["result"]["service"], "monitor");
    assert_eq!(talk.request(r#"1 [] print(1,2.5,"x")"#), r#"1 [0] print(0,[1,2.5,"x"])"#);
    assert!(talk.request("7").starts_with("7 [] error(100,1,"));
    assert!(talk.request("}{").starts_with("0 [] error(100,0,"));
}

#[test]
fn a_tool_receives_only_its_own_events_and_leaves_nothing() {
    let service = Served::start("test");
    let (mut one, mut other) = (service.connect(), service.connect());
    for talk in [&mut one, &mut other] {
        assert_eq!(talk.request("1 [0] define_user_event(5)"), "1 [0] define_user_event(0)");
        assert_eq!(talk.request("2 [0] user_event(5): 3 [0] print($1)"), "2 [0] user_event(0)");
        assert_eq!(talk.request("4 [0] enable(2)"), "4 [0] enable(0)");
    }
    assert_eq!(one.request("5 [0] raise_event(5,[7])"), "5 [0] raise_event(0)");
    assert_eq!(one.line().as_deref(), Some("3 [0] print(0,[7])"));
    // The next line of the other tool is the reply to its own request.
    assert_eq!(other.request("6 [0] print(8)"), "6 [0] print(0,[8])");
    drop(one);
    let none = "4 [0] enable(306,0,\"no request 2 is stored on node 0\")";
    assert_eq!(service.connect().request("4 [0] enable(2)"), none);
}

#[test]
fn the_end_of_a_process_is_reported_with_its_pid() {
    let service = Served::start("procfs");
    let mut talk = service.connect();
    let mut cat = Cat::start();
    let pid = cat.0.id();
    assert_eq!(talk.request(&format!("1 [] attach({pid})")), "1 [0] attach(0)");
    let stored = talk.request(&format!("2 [] process_terminated({pid}): 3 [$0] print($1)"));
    assert_eq!(stored, "2 [0] process_terminated(0)");
    assert_eq!(talk.request("4 [] enable(2)"), "4 [0] enable(0)");
    cat.end();
    assert_eq!(talk.line(), Some(format!("3 [0] print(0,[{pid}])")));
    let gone = format!("5 [0] process_info(301,0,\"process {pid} has ended\")");
    assert_eq!(talk.request(&format!("5 [] process_info({pid},0)")), gone);
}

#[test]
fn a_child_of_an_attached_process_is_reported_and_attached() {
    let service = Served::start("procfs");
    let mut talk = service.connect();
    let mut shell = Command::new("sh");
    shell.args(["-c", "read go; tail -f /dev/null & read on; kill $!"]);
    let mut shell = Cat(shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let pid = shell.0.id();
    assert_eq!(talk.request(&format!("1 [] attach({pid})")), "1 [0] attach(0)");
    assert_eq!(talk.request("2 [] new_process(): 3 [$0] print($1)"), "2 [0] new_process(0)");
    assert_eq!(talk.request("4 [] enable(2)"), "4 [0] enable(0)");
    shell.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let line = talk.line().unwrap();
    let child: u32 =
        line.strip_prefix("3 [0] print(0,[").unwrap().trim_end_matches("])").parse().unwrap();
    let both = talk.request("5 [] process_info([],0)");
    assert_eq!(both, format!("5 [0] process_info(0,2,[{},{}])", pid.min(child), pid.max(child)));
}

#[test]
fn a_tool_that_does_not_read_gets_the_number_of_missed_events() {
    const LINES: usize = 230;
    const RAISED: usize = 100 * LINES;
    let service = Served::with("[limits]\nqueue_bytes = \"64KiB\"\n");
    let (mut slow, mut quick) = (service.connect(), service.connect());
    // From 2^30 on, events are shared by all tools.
    slow.request("1 [0] define_user_event(0x40000000)");
    slow.request("2 [0] user_event(0x40000000): 3 [0] print($1)");
    slow.request("4 [0] enable(2)");
    let raise = format!("9 [0] raise_event(0x40000000,[\"{}\"])", "x".repeat(100));
    let line = vec![raise; 100].join("; ");
    for _ in 0..LINES {
        let reply = quick.request(&line);
        assert!(reply.starts_with("9 [0] raise_event(0); "), "{reply}");
    }
    let (mut n_received, mut n_missed) = (0, 0);
    while n_received + n_missed < RAISED {
        match slow.line().unwrap().split_once('(').unwrap() {
            ("3 [0] print", _) => n_received += 1,
            (_, rest) => {
                let mut numbers = rest.split(',');
                assert_eq!(numbers.next(), Some("407"));
                n_missed += numbers.next().unwrap().parse::<usize>().unwrap();
            }
        }
    }
    assert_eq!(n_received + n_missed, RAISED);
    assert!(n_missed > 0, "it took all of them");
}
