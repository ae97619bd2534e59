//! The rules of tools as the page tells of them: live, and only to who may see them.

use super::get::Web;
use super::page::opened;
use super::viewer::Viewer;
use crate::talk::Talk;
use serde_json::{Value, json};

/// A tool whose rule waits for an event of its own, 5.
fn tool(web: &Web) -> Talk {
    let mut tool = web.served.connect();
    for line in
        ["1 [0] define_user_event(5)", "11 [0] user_event(5): 12 [0] print($1)", "2 [0] enable(11)"]
    {
        assert!(tool.ask(line).contains("(0)"));
    }
    tool
}

/// Waits until the rules are told so.
fn hears(viewer: &mut Viewer, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let rules = viewer.event("rules");
        if is_it(&rules) {
            return rules;
        }
    }
}

#[test]
fn what_tools_wait_for_and_how_often_it_occurred_is_told_as_it_happens() {
    let web = Web::with("");
    let mut tool = tool(&web);
    let mut viewer = Viewer::of(&web, "/feed");
    let rules = hears(&mut viewer, |it| it[0]["occurrences"] == 0);
    assert_eq!(
        (&rules[0]["event"], &rules[0]["actions"], &rules[0]["enabled"]),
        (&json!("11 [0] user_event(5)"), &json!("12 [0] print($1)"), &json!(true))
    );
    assert_eq!(rules[0]["requestor"], std::process::id());
    for _ in 0..23 {
        tool.say(b"3 [0] raise_event(5,[1])\n").unwrap();
    }
    hears(&mut viewer, |it| it[0]["occurrences"] == 23);
    drop(tool);
    hears(&mut viewer, |it| *it == json!([]));
}

#[test]
fn a_stranger_is_told_of_nobodys_rules() {
    let web = Web::with("");
    let _tool = tool(&web);
    let mut stranger = Viewer::with(&web, "/feed", "X-Nothing: 1");
    assert_eq!(stranger.event("rules"), json!([]));
    let mut viewer = Viewer::of(&web, "/feed");
    assert_eq!(viewer.event("rules")[0]["id"], 11);
}

#[test]
fn the_page_shows_a_rule_its_count_and_its_end() {
    let web = Web::with("");
    let Some(mut browser) = opened("the_page_shows_a_rule", &web) else { return };
    browser.key("3");
    let text = "document.getElementById('monitors').textContent";
    browser.until(&format!("{text}.includes('Rules')"));
    let mut tool = tool(&web);
    browser.until(&format!("{text}.includes('11 [0] user_event(5)')"));
    for _ in 0..23 {
        tool.say(b"3 [0] raise_event(5,[1])\n").unwrap();
    }
    let last = "[...document.querySelectorAll('#monitors tbody tr')].at(-1)?.lastChild.textContent";
    browser.until(&format!("{last} === '23'"));
    browser.picture("rules-light");
    drop(tool);
    browser.until(&format!("!{text}.includes('user_event')"));
    assert_eq!(browser.errors, Vec::<String>::new());
}
