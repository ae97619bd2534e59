//! What may not be in a Rust file, or not in that one.
//!
//! In: a file. Out: `unsafe` outside `UNSAFE_FILES`, unfinished work, tests that are ignored or
//! wait for a time, and a missing file header.

use super::finding::{Finding, finding};
use super::source::{Source, is_word};

/// Where `unsafe` is allowed: folders, and files that cannot do without one line of it.
const UNSAFE_FILES: &[&str] = &[
    "monitor-user/crates/sys/",
    "monitor-ebpf/src/bin/",
    "monitor-ebpf/src/kernel/",
    // Pointers from C cannot be checked.
    "monitor-user/crates/client/capi/src/lib.rs",
    // A C library that calls, and is called.
    "monitor-user/crates/pmix/src/libpmix/",
    // aya's marker trait `Pod` has to be implemented where the type is.
    "monitor-user/crates/loader/src/object.rs",
];
/// Where a test may sleep: to poll a condition until a deadline, and in the bench, which measures
/// over a time.
const SLEEP_FILES: &[&str] = &["tests/it/deadline.rs", "tests/bench/"];
/// Written in two parts, so that this file does not hold them.
const UNFINISHED: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

/// What may not be in the file.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(check_header(source));
    findings.extend(check_unsafe(source));
    findings.extend(check_unfinished(source));
    findings.extend(check_tests(source));
    findings
}

/// The first line of the header, which says what the file is.
pub fn header(source: &Source) -> Option<&str> {
    source.text.lines().next()?.strip_prefix("//!").map(str::trim)
}

fn check_header(source: &Source) -> Option<Finding> {
    if header(source).is_some_and(|header| header.len() > 2) {
        return None;
    }
    Some(finding(
        1,
        "no `//!` on the first line".to_owned(),
        "a reader must know what a file is before what it does",
        "say what it is, what comes in, what goes out, and what it leaves to others",
    ))
}

fn check_unsafe(source: &Source) -> Vec<Finding> {
    if UNSAFE_FILES.iter().any(|home| source.path.starts_with(home)) {
        return Vec::new();
    }
    let attribute = |index: usize| index > 0 && source.at(index - 1) == "[";
    let places = source.find(&["unsafe"]).filter(|&index| !attribute(index));
    let lines = places.map(|index| source.tokens[index].line);
    lines
        .map(|line| {
            finding(
                line,
                "`unsafe` in a file that may not have it".to_owned(),
                "a review of memory safety reads only the files of xtask/src/tidy/forbidden.rs",
                "give `sys` a safe function for it, with the reason why it is safe",
            )
        })
        .collect()
}

fn check_unfinished(source: &Source) -> Vec<Finding> {
    let macros = ["todo", "unimplemented"].into_iter().flat_map(|name| {
        let found: Vec<usize> = source.find(&[name, "!"]).collect();
        found.into_iter().map(|index| source.tokens[index].line)
    });
    let marks = (1..).zip(source.text.lines()).filter(|(_, text)| {
        let mut words = text.split(|letter: char| !letter.is_alphanumeric());
        words.any(|word| UNFINISHED.contains(&word))
    });
    macros
        .chain(marks.map(|(line, _)| line))
        .map(|line| {
            finding(
                line,
                "unfinished work".to_owned(),
                "a mark in the code is in no plan",
                "finish it, or open an issue",
            )
        })
        .collect()
}

fn check_tests(source: &Source) -> Vec<Finding> {
    let ignored = source.find(&["#", "[", "ignore"]).map(|index| {
        finding(
            source.tokens[index].line,
            "an ignored test".to_owned(),
            "a test that does not run says nothing, and looks as if it did",
            "fix it; where it cannot run, let it print `SKIP name: reason`",
        )
    });
    ignored.chain(sleeps(source)).collect()
}

fn sleeps(source: &Source) -> impl Iterator<Item = Finding> + '_ {
    let calls = source.find(&["sleep", "("]).filter(|&index| {
        let is_call = index > 0 && !is_word(source.at(index - 1));
        is_call && source.is_test(source.tokens[index].line)
    });
    let is_allowed = SLEEP_FILES.iter().any(|home| source.path.starts_with(home));
    calls.filter(move |_| !is_allowed).map(|index| {
        finding(
            source.tokens[index].line,
            "a test that sleeps".to_owned(),
            "a fixed time is too short on a busy machine and too long on every other",
            "wait for the condition, with a deadline: tests/it/deadline.rs",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let text = format!("//! A case.\n{text}");
        let source = Source::new(path, &text).expect("the case is Rust");
        let found: Vec<String> = check(&source).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn unsafe_is_in_sys_only() {
        let text = "fn f() { unsafe { g() } }";
        check_file("monitor-user/crates/sys/src/poll.rs", text, &[]);
        check_file(
            "monitor-user/crates/sampling/src/lib.rs",
            text,
            &["`unsafe` in a file that may not have it"],
        );
        check_file("monitor-user/crates/client/src/tool.rs", "#[unsafe(no_mangle)] fn f() {}", &[]);
    }

    #[test]
    fn a_test_may_not_sleep_and_a_program_may() {
        let test = "#[cfg(test)] mod tests { fn f() { thread::sleep(x); } }";
        check_file("monitor-user/src/cli/watch.rs", test, &["a test that sleeps"]);
        check_file("tests/it/root/lifecycle.rs", "fn f() { sleep(x); }", &["a test that sleeps"]);
        check_file("tests/it/deadline.rs", "fn f() { sleep(x); }", &[]);
        check_file("tests/bench/watch.rs", "fn f() { sleep(x); }", &[]);
        check_file("monitor-user/src/cli/watch.rs", "fn f() { sleep(x); }", &[]);
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments() {
        check_file("x.rs", "fn f() { todo!() }", &["unfinished work"]);
        check_file("x.rs", &format!("// {}: later", UNFINISHED[0]), &["unfinished work"]);
        check_file("x.rs", "#[test] #[ignore] fn f() {}", &["an ignored test"]);
    }

    #[test]
    fn a_file_without_a_header_is_named() {
        let source = Source::new("x.rs", "fn f() {}").expect("the case is Rust");
        assert_eq!(check(&source).len(), 1);
    }
}
