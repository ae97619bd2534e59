//! `monitor ask`, with a daemon and without one.

use crate::served::{Served, monitor};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn local(words: &[&str]) -> Command {
    let mut it = monitor();
    it.args(["ask", "--local", "--backend", "test"]).args(words);
    it
}

#[track_caller]
fn check(mut command: Command, code: i32, out: &str, said: &str) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert_eq!(String::from_utf8(stdout).unwrap(), out);
    assert_eq!(String::from_utf8(stderr).unwrap(), said);
    assert_eq!(status.code(), Some(code));
}

#[test]
fn without_a_daemon_it_executes_requests_itself() {
    check(local(&["10 [] number_of_nodes()"]), 0, "10 [0] number_of_nodes(0,1)\n", "");
    let lines = local(&[r#"1 [] print(1,2.5,"x")"#, "2 [0] list_nodes()"]);
    check(lines, 0, "1 [0] print(0,[1,2.5,\"x\"])\n2 [0] list_nodes(0,[0,\"test-node\"])\n", "");
    let info = local(&["--pid", "1234", "1 [] process_info([],1)"]);
    check(info, 0, "1 [0] process_info(0,1,[1234,1234])\n", "");
}

#[test]
fn the_worst_reply_is_the_exit_code() {
    let picture = "monitor: 1 [0] stop([1\nmonitor:              ^ found the end of the line, \
                   expected `,` or `]`\n";
    let answer = "1 [] error(100,13,\"found the end of the line, expected `,` or `]`\")\n";
    check(local(&["1 [0] stop([1"]), 2, answer, picture);
    let none = "1 [0] attach(300,0,\"no process 3 on node 0\")\n";
    check(local(&["1 [] attach(3)"]), 6, none, "");
    check(local(&["1 [] attach([3,1234])"]), 4, "1 [0] attach(1,[3,300])\n", "");
    let strict = "1 [0] enable(306)\n";
    check(local(&["--strict", "1 [0] enable(3)"]), 6, strict, "");
    let mut absent = monitor();
    absent.args(["ask", "--socket", "/nowhere", "1 [] print()"]);
    let got = absent.output().unwrap();
    assert_eq!(got.status.code(), Some(7));
}

#[test]
fn a_session_comes_from_the_standard_input() {
    let service = Served::start("test");
    for mut command in [local(&["-"]), service.command("ask -")] {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = "1 [0] define_user_event(5)\n\n2 [0] user_event(5): 3 [0] print($1)\n\
                     4 [0] enable(2); 5 [0] raise_event(5,[7])\n6 [0] print(8)\n";
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let want = "1 [0] define_user_event(0)\n2 [0] user_event(0)\n\
                    4 [0] enable(0); 5 [0] raise_event(0)\n3 [0] print(0,[7])\n\
                    6 [0] print(0,[8])\n";
        assert_eq!(out, want);
    }
}

#[test]
fn events_are_waited_for_up_to_the_count() {
    let service = Served::start("test");
    let lines = ["1 [0] define_user_event(5)", "2 [0] user_event(5): 3 [0] print($1)"];
    let raise = "4 [0] enable(2); 5 [0] raise_event(5,[7])";
    for mut command in [local(&["--count", "1"]), service.command("ask --count 1")] {
        command.args(lines).arg(raise);
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(out.ends_with("3 [0] print(0,[7])\n"), "{out}");
    }
}
