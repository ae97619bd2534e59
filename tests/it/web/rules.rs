//! The rules of clients on the page: updated live, and visible only with access.

use super::get::Web;
use super::page::opened;
use super::viewer::Viewer;
use crate::socket_session::SocketSession;
use serde_json::{Value, json};

/// A client with a rule for its user event 5.
fn client_with_rule(web: &Web) -> SocketSession {
    let mut client = web.served.connect();
    for line in
        ["1 [0] define_user_event(5)", "11 [0] user_event(5): 12 [0] print($1)", "2 [0] enable(11)"]
    {
        assert!(client.request(line).contains("(0)"));
    }
    client
}

/// Waits for an event with matching rules.
fn wait_for_rules(viewer: &mut Viewer, matches: impl Fn(&Value) -> bool) -> Value {
    loop {
        let rules = viewer.event("rules");
        if matches(&rules) {
            return rules;
        }
    }
}

#[test]
fn rules_and_their_counts_are_updated_live() {
    let web = Web::with("");
    let mut client = client_with_rule(&web);
    let mut viewer = Viewer::connect(&web, "/feed");
    let rules = wait_for_rules(&mut viewer, |it| it[0]["occurrences"] == 0);
    assert_eq!(
        (&rules[0]["event"], &rules[0]["actions"], &rules[0]["enabled"]),
        (&json!("11 [0] user_event(5)"), &json!("12 [0] print($1)"), &json!(true))
    );
    assert_eq!(rules[0]["requestor"], std::process::id());
    for _ in 0..23 {
        client.send(b"3 [0] raise_event(5,[1])\n").unwrap();
    }
    wait_for_rules(&mut viewer, |it| it[0]["occurrences"] == 23);
    drop(client);
    wait_for_rules(&mut viewer, |it| *it == json!([]));
}

#[test]
fn without_the_token_no_rules_are_visible() {
    let web = Web::with("");
    let _client = client_with_rule(&web);
    let mut anonymous = Viewer::with(&web, "/feed", "X-Nothing: 1");
    assert_eq!(anonymous.event("rules"), json!([]));
    let mut viewer = Viewer::connect(&web, "/feed");
    assert_eq!(viewer.event("rules")[0]["id"], 11);
}

#[test]
fn the_page_shows_a_rule_its_count_and_its_end() {
    let web = Web::with("");
    let Some(mut browser) = opened("the_page_shows_a_rule", &web) else { return };
    browser.key("3");
    let text = "document.getElementById('monitors').textContent";
    browser.until(&format!("{text}.includes('Rules')"));
    let mut client = client_with_rule(&web);
    browser.until(&format!("{text}.includes('11 [0] user_event(5)')"));
    for _ in 0..23 {
        client.send(b"3 [0] raise_event(5,[1])\n").unwrap();
    }
    let last = "[...document.querySelectorAll('#monitors tbody tr')].at(-1)?.lastChild.textContent";
    browser.until(&format!("{last} === '23'"));
    browser.picture("rules-light");
    drop(client);
    browser.until(&format!("!{text}.includes('user_event')"));
    assert_eq!(browser.errors, Vec::<String>::new());
}
