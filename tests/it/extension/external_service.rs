//! External services, provided by a process of its own: the example of the manual, with a daemon.

use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::Served;
use std::path::Path;
use std::process::Command;

fn example(served: &Served) -> Guarded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/extension.py");
    let mut it = Guarded::run(Command::new("python3").arg(path).arg(served.socket()));
    assert_eq!(it.line(), "1 [0] extension_register(0)");
    it
}

#[test]
fn services_of_an_extension_are_requested_as_all_others_and_end_with_it() {
    let served = Served::start("test");
    let mut talk = served.connect();
    let extension = example(&served);
    assert_eq!(talk.request("1 [0] demo_add(2,3)"), "1 [0] demo_add(0,5)");
    assert_eq!(
        talk.request("1 [] demo_add(4); 2 [] print(7)"),
        "1 [0] demo_add(0,4); 2 [0] print(0,[7])"
    );
    let files = talk.request(&format!("1 [0] demo_files({})", served.pid()));
    assert!(files.starts_with("1 [0] demo_files(0,"), "{files}");
    assert_eq!(talk.request("1 [0] demo_files(1,2)"), "1 [0] demo_files(105)");
    let manual = served.command("services").output().unwrap();
    let manual = String::from_utf8(manual.stdout).unwrap();
    assert!(manual.contains("  demo_add(integer* numbers)  Adds numbers.\n"), "{manual}");
    assert!(talk.request("1 [0] extensions()").contains("\"demo_\""));
    let mut other = served.connect();
    let taken = other.request("1 [0] extension_register(\"demo_\",[\"demo_x\",\"\",\"\"])");
    assert!(taken.starts_with("1 [0] extension_register(305,"), "{taken}");
    drop(extension);
    deadline::until(|| {
        let gone = talk.request("1 [0] demo_add(2,3)");
        gone.starts_with("1 [] error(102,").then_some(())
    });
}

#[test]
fn a_tool_that_waits_for_an_extension_that_ends_gets_an_error() {
    let served = Served::start("test");
    let (mut talk, mut owner) = (served.connect(), served.connect());
    let register = "1 [0] extension_register(\"slow_\",[\"slow_one\",\"\",\"Waits.\"])";
    assert_eq!(owner.request(register), "1 [0] extension_register(0)");
    talk.send(b"1 [0] slow_one(1)\n").unwrap();
    let called = owner.line().expect("a call");
    assert!(called.starts_with("0 [0] extension_called(0,"), "{called}");
    // Only the tool that was asked can answer.
    let call = called.split(['(', ',']).nth(2).unwrap().to_owned();
    let mut other = served.connect();
    let refused = other.request(&format!("1 [0] extension_reply({call},0,[])"));
    assert!(refused.starts_with("1 [0] extension_reply(300,"), "{refused}");
    drop(owner);
    let reply = talk.line().expect("a reply");
    assert!(reply.starts_with("1 [0] slow_one(406,"), "{reply}");
}
