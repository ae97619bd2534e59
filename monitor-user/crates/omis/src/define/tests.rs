//! Definitions, and requests that call them.

use super::{DefineError, Definition, Definitions, MAX_BYTES, MAX_CHAIN};
use crate::{Dialect, Request, Status, Value, parse};

fn request(line: &str) -> Request {
    parse::request(line.as_bytes(), Dialect::Extended).unwrap()
}

fn definition(name: &str, params: &[&str], body: &str) -> Result<Definition, DefineError> {
    let params = params.iter().map(|param| Value::from(*param)).collect();
    Definition::from_values(&[Value::from(name), Value::List(params), Value::from(body)])
}

fn defined(all: &[(&str, &[&str], &str)]) -> Definitions {
    let mut definitions = Definitions::default();
    for (name, params, body) in all {
        definitions.define(definition(name, params, body).unwrap()).unwrap();
    }
    definitions
}

#[track_caller]
fn check(all: &[(&str, &[&str], &str)], line: &str, want: &str) {
    let got = match defined(all).expand(&request(line)) {
        Ok(request) => request.to_string(),
        Err(fault) => format!("{}: {fault}", fault.status.name().unwrap()),
    };
    assert_eq!(got, want);
}

const HOLD: (&str, &[&str], &str) = ("hold", &["tids"], "stop($tids); print([$tids,$node])");
const NOTE: (&str, &[&str], &str) = ("note", &["to", "what"], "3 [$to] print($what)");

#[test]
fn a_call_becomes_its_body() {
    check(&[HOLD], "7 [1,2] hold([4])", "7 [1,2] stop([4]); 7 [1,2] print([[4],$node])");
    check(
        &[HOLD],
        "8 [] user_event(5): 9 [$0] hold($1); 10 [0] enable(8)",
        "8 [] user_event(5): 9 [$0] stop($1); 9 [$0] print([$1,$node]); 10 [0] enable(8)",
    );
}

#[test]
fn a_body_may_name_its_own_nodes() {
    check(&[NOTE], "7 [1] note(2,\"x\")", "7 [2] print(\"x\")");
    check(&[NOTE], "7 [1] note([2,3],1)", "7 [2,3] print(1)");
    check(&[NOTE], "1 [] user_event(5): 7 [1] note($0,1)", "1 [] user_event(5): 7 [$0] print(1)");
    check(
        &[NOTE],
        "7 [1] note(\"a\",1)",
        "TYPE: found `$to` in a node list, expected node numbers",
    );
}

#[test]
fn definitions_call_earlier_ones() {
    let both: (&str, &[&str], &str) = ("both", &["a", "b"], "hold($a); hold($b)");
    let want = "stop(1); print([1,$node]); stop(2); print([2,$node])";
    check(&[HOLD, both], "both(1,2)", want);
}

#[test]
fn a_body_of_several_stages_cannot_share_a_stage() {
    let what = "CLASS: found `hold`, which has several stages, \
                expected no other request in its stage";
    check(&[HOLD], "1 [0] hold(4), 2 [0] stop(5)", what);
    check(&[NOTE], "1 [0] note(4,1), 2 [0] stop(5)", "1 [4] print(1), 2 [0] stop(5)");
}

#[test]
fn a_call_has_as_many_parameters_as_the_definition() {
    check(&[HOLD], "1 [0] hold()", "ARITY: found 0 parameters, expected 1");
}

#[test]
fn a_call_cannot_grow_without_bounds() {
    let names: Vec<String> = (0..MAX_CHAIN).map(|number| format!("d{number}")).collect();
    let mut definitions = defined(&[("d", &["x"], "print([[$x]]), print([[$x]])")]);
    let mut last = "d".to_owned();
    for name in &names[..MAX_CHAIN - 1] {
        let body = format!("{last}([$x]), {last}([$x])");
        definitions.define(definition(name, &["x"], &body).unwrap()).unwrap();
        last.clone_from(name);
    }
    let fault = definitions.expand(&request(&format!("1 [0] {last}([])"))).unwrap_err();
    assert_eq!(fault.status, Status::LIMIT);
    let one_more = definition("more", &[], &format!("{last}(1)")).unwrap();
    assert_eq!(definitions.define(one_more).unwrap_err().status, Status::LIMIT);
}

#[test]
fn a_definition_that_would_call_itself_is_refused_and_changes_nothing() {
    let mut definitions = defined(&[("a", &[], "stop(1)"), ("b", &[], "a()")]);
    let cycle = definition("a", &[], "b()").unwrap();
    assert_eq!(definitions.define(cycle).unwrap_err().status, Status::CLASS);
    let same = definition("c", &[], "c()").unwrap();
    assert_eq!(definitions.define(same).unwrap_err().to_string(), "`c` would call itself");
    assert_eq!(definitions.expand(&request("b()")).unwrap().to_string(), "stop(1)");
    assert_eq!(definitions.expand(&request("c()")).unwrap().to_string(), "c()");
}

#[track_caller]
fn check_refused(params: &[&str], body: &str, status: Status, reason: &str) {
    let refused = definition("d", params, body).unwrap_err();
    assert_eq!((refused.status, refused.reason.as_str()), (status, reason));
}

#[test]
fn a_body_is_checked_when_it_is_defined() {
    let reason = "in the body of `d`, byte 5: found the end of the line, expected a value";
    check_refused(&[], "stop(", Status::SYNTAX, reason);
    check_refused(&[], "stop($tids)", Status::UNBOUND_VAR, "`d` has no parameter `$tids`");
    check_refused(&["a"], "stop($1)", Status::UNBOUND_VAR, "`d` has no parameter `$1`");
    check_refused(&["a", "a"], "stop($a)", Status::EXISTS, "two parameters `a`");
    check_refused(&["a b"], "stop(1)", Status::LEX, "`a b` is not a name");
    assert_eq!(Definition::from_values(&[]).unwrap_err().status, Status::TYPE);
}

#[test]
fn substituted_parameters_cannot_grow_without_bounds() {
    let wide = format!("print([{}])", vec!["$x"; 1000].join(","));
    let definitions = defined(&[("wide", &["x"], &wide)]);
    let text = "a".repeat(2000);
    let fault = definitions.expand(&request(&format!("wide(\"{text}\")"))).unwrap_err();
    assert_eq!(fault.status, Status::LIMIT);
    assert!(definitions.expand(&request("wide(1)")).is_ok());
}

#[test]
fn the_definitions_of_a_session_have_a_common_limit() {
    let body = format!("print(\"{}\")", "a".repeat(MAX_BYTES / 2));
    let mut definitions = defined(&[("a", &[], &body)]);
    let refused = definitions.define(definition("b", &[], &body).unwrap()).unwrap_err();
    assert_eq!(refused.status, Status::RESOURCE);
    // Replacing the first definition frees its bytes.
    assert!(definitions.define(definition("a", &[], &body).unwrap()).is_ok());
}
