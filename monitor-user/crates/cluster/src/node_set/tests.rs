//! Sets of nodes beside what ClusterShell 1.9.1 makes of the same texts.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Texts, and what `nodeset -f` of ClusterShell 1.9.1 prints; `-` for an empty set.
const RECORDED: &str = include_str!("recorded.txt");

fn folded(text: &str) -> Result<String, NodeSetError> {
    expand(text, &BTreeSet::new()).map(|names| fold(names.iter().map(String::as_str)))
}

#[test]
fn sets_fold_as_nodeset_folds_them() {
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (text, want) = line.split_once('\t').unwrap();
        let want = if want == "-" { "" } else { want };
        assert_eq!(folded(text).as_deref(), Ok(want), "{text}");
    }
}

#[track_caller]
fn check_error(text: &str, want: &str) {
    let error = expand(text, &BTreeSet::new()).expect_err("no set of nodes");
    assert!(error.to_string().starts_with(want), "{text}: {error}");
}

#[test]
fn what_is_no_set_is_named() {
    check_error("", "a name is missing");
    check_error("n1,", "a name is missing");
    check_error("n1,,n2", "a name is missing before \",n2\"");
    check_error("!n1", "a name is missing before \"!n1\"");
    check_error("n[1-3", "\"n[1-3\": a bracket");
    check_error("n1-3]", "\"n1-3]\": a bracket");
    check_error("n[1[2]]", "\"n[1[2]]\": a bracket");
    check_error("n[]", "\"\" is no range");
    check_error("n[3-1]", "\"3-1\" is no range: the first number");
    check_error("n[01-100]", "\"01-100\" is no range: numbers with leading zeros");
    check_error("n[1/2]", "\"1/2\" is no range: a step follows");
    check_error("n[1-9/0]", "\"1-9/0\" is no range: a step is at least 1");
    check_error("n[1-99999999999999999999]", "\"1-99999999999999999999\" is no range");
    check_error("n[0-99999]", "\"0-99999\" has more than 65536 nodes");
    check_error("n[0-999]m[0-999]", "\"n[0-999]m[0-999]\" has more than 65536 nodes");
    check_error("@gpu", "group \"@gpu\" is not known");
    check_error("(n1", "\"(n1\": a parenthesis");
    check_error("n1)", "\"n1)\": a parenthesis");
    check_error("n1(n2)", "\"n1(n2)\": a parenthesis");
    check_error("(n1)n2", "\"(n1)n2\": a parenthesis");
    check_error(&"(".repeat(100_000), "\"(((");
    check_error("(n1,)", "a name is missing before \")\"");
    check_error("n[1*]", "\"1*\" is no range");
    check_error("n*;", "\"n*;\": ';' is in no name");
    check_error("n1 n2", "\"n1 n2\": ' ' is in no name");
}

#[test]
fn texts_of_patterns_are_in_their_order() {
    let texts = expand_patterns("/run/n[9-10,1]!a.9p,/b").unwrap();
    assert_eq!(texts, ["/run/n9!a.9p", "/run/n10!a.9p", "/run/n1!a.9p", "/b"]);
    for text in ["", "a,", "a[1", "a[b]", "a[0-99999]"] {
        assert!(expand_patterns(text).is_err(), "{text}");
    }
}

#[test]
fn all_nodes_are_a_group() {
    let all: BTreeSet<String> = ["n1", "n2", "m3"].map(str::to_owned).into();
    let names = expand("@*!n2", &all).unwrap();
    assert_eq!(fold(names.iter().map(String::as_str)), "m3,n1");
}

/// A set with wildcards of the nodes below, and what `nodeset -f` of ClusterShell 1.9.1 prints.
const WILDCARDS: &str = include_str!("wildcards.txt");

#[test]
fn wildcards_match_nodes_as_those_of_nodeset_do() {
    let (mut all, mut n_compared) = (BTreeSet::new(), 0);
    for line in WILDCARDS.lines().filter(|line| !line.starts_with('#')) {
        let (text, want) = line.split_once('\t').unwrap();
        if text == "all" {
            all = expand(want, &BTreeSet::new()).unwrap();
            continue;
        }
        let want = if want == "-" { "" } else { want };
        let folded = expand(text, &all).map(|names| fold(names.iter().map(String::as_str)));
        assert_eq!(folded.as_deref(), Ok(want), "{text}");
        n_compared += 1;
    }
    assert!(n_compared > 100);
}

#[test]
fn wildcards_match_whole_names_in_bounded_time() {
    let names = |text: &str| -> BTreeSet<String> { expand(text, &BTreeSet::new()).unwrap() };
    let all = &names("é1,n[0-4095]") | &BTreeSet::from(["a".repeat(200)]);
    assert_eq!(expand("?1", &all).unwrap(), names("é1,n1"));
    assert_eq!(expand("n[0-4095]*", &all).unwrap(), names("n[0-4095]"));
    let endless = format!("{}b", "a*".repeat(100));
    assert_eq!(expand(&endless, &all).unwrap(), BTreeSet::new());
    let error = expand("*[0-65535]", &all).expect_err("too many");
    assert_eq!(error, NodeSetError::TooMany("*[0-65535]".to_owned()));
}

#[test]
fn parentheses_are_one_operand() {
    let check = |text: &str, want: &str| assert_eq!(folded(text).as_deref(), Ok(want), "{text}");
    check("n[1-9]&(n3,n7)", "n[3,7]");
    check("n[1-9]!(n[1-9]!(n3,n7))", "n[3,7]");
    check(" ( n1 , n2 ) ^ n2", "n1");
    check("n1,()", "n1");
    check("()", "");
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    let name = prop_oneof!["[ab][0-9]{1,2}", "[ab][0-2]r[0-3]", "[ab]0{0,2}[0-9]-ib[01]", "[a-c]"];
    prop::collection::btree_set(name, 0..40)
}

proptest! {
    #[test]
    fn a_folded_set_has_the_same_names(names in names()) {
        let text = fold(names.iter().map(String::as_str));
        if !names.is_empty() {
            prop_assert_eq!(expand(&text, &BTreeSet::new()).unwrap(), names);
        }
    }

    #[test]
    fn a_text_is_a_set_or_an_error(text: String) {
        // It neither panics nor takes long.
        let _ = expand(&text, &BTreeSet::new());
    }
}
