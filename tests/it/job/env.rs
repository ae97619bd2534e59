//! `job env`: steps, and environments of files and processes.

use super::{failed, printed};
use crate::deadline;
use crate::golden::as_other_user;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor, write};
use serde_json::Value;
use std::process::Command;

const STEPS: &str = "\
1  job  set:P=/a
   was not set: created
   P: not set -> \"/a\"
2  application  prepend:P=/b
   added to the list
   P: \"/a\" -> \"/b:/a\"
3  application  append:EMPTY[;]=x
   was empty: no separator
   EMPTY: \"\" -> \"x\"
4  application  first:LIST=b
   first, other occurrences removed
   LIST: \"a:b:c:b\" -> \"b:a:c\"
5  application  unset:FOO*
   removed
   FOO: \"1\" -> not set
   FOOD: \"2\" -> not set
6  application  add:LIST=z
   is set: kept

result
   EMPTY: \"x\"
   FOO: not set
   FOOD: not set
   LIST: \"b:a:c\"
   P: \"/b:/a\"
";

#[test]
fn each_step_is_explained() {
    let folder = Folder::new();
    let file = folder.join("environment");
    write(&file, "EMPTY=\nLIST=a:b:c:b\nFOO=1\nFOOD=2\n");
    let application =
        ["prepend:P=/b", "append:EMPTY[;]=x", "first:LIST=b", "unset:FOO*", "add:LIST=z"];
    let head = ["job", "env", "--from", file.to_str().unwrap(), "--for-job", "set:P=/a"];
    let words = [&head[..], &["--explain"], &application].concat();
    assert_eq!(printed(&words), STEPS);
    let text = printed(&[&words[..], &["--format", "json"]].concat());
    let explained: Value = serde_json::from_str(&text).unwrap();
    let effects: Vec<_> =
        explained["steps"].as_array().unwrap().iter().map(|it| &it["effect"]).collect();
    let want = ["created", "extended", "was-empty", "moved-first", "removed", "kept"];
    assert_eq!(effects, want);
    assert_eq!(explained["result"][4]["value"], "/b:/a");
}

#[test]
fn the_environment_of_a_process_is_read_by_its_pid() {
    let mut command = Command::new("cat");
    let rank = Guarded::run(command.env_clear().env("LIST", "a"));
    let pid = rank.pid().0.to_string();
    let words = ["job", "env", "--from", &pid, "--explain", "append:LIST=b"];
    // It is there once the process has executed its program.
    deadline::until(|| printed(&words).contains("LIST: \"a\" -> \"a:b\"").then_some(()));
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let refused = |words: &[&str]| failed(monitor().args([&["job", "env"], words].concat()));
    let (code, message) = refused(&["--explain", "add:A=1", "--from", "4000000000"]);
    let none = "monitor: no process 4000000000: it has ended, or never was\n";
    assert_eq!((code, message.as_str()), (Some(6), none));
    let (code, message) = refused(&["--explain", "add:A=1", "--from", "/no/such/file"]);
    assert_eq!(code, Some(1));
    assert!(message.starts_with("monitor: cannot read /no/such/file: No such file"), "{message}");
    let (code, message) = refused(&["--explain", "first"]);
    let bad = "monitor: \"first\" is no directive: expected KIND:NAME=VALUE, such as \
               prepend:PATH=/opt/bin\n";
    assert_eq!((code, message.as_str()), (Some(2), bad));
}

#[test]
fn root_the_environment_of_another_user_is_refused() {
    if !granted("root_the_environment_of_another_user_is_refused") {
        return;
    }
    let words = ["job", "env", "--from", "1", "--explain", "add:A=1"];
    let (code, message) = failed(&mut as_other_user(&Folder::new(), &words));
    let want = "monitor: cannot read the environment of process 1: only its user and root may \
                read it; run it as root\n";
    assert_eq!((code, message.as_str()), (Some(5), want));
}
