//! The history on the page from before it was opened, from the flight recorder.

use super::get::Web;
use super::page::{Busy, open_details, opened};
use super::viewer::Viewer;
use crate::deadline::until;
use serde_json::{Value, json};

const FLIGHT: &str = "[flight]\nkeep = \"60s\"\nevery = \"200ms\"\n";

#[track_caller]
fn history(web: &Web, query: &str, header: &str) -> Value {
    let answer = web.get(&format!("/history{query}"), &[header]);
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).unwrap()
}

/// The query for the only process of the canned backend.
fn fixed(web: &Web) -> String {
    let mut viewer = Viewer::connect(web, "/feed");
    let row = viewer.event("change")["new"][0].clone();
    format!("?pid={}&start={}", row[0], row[1])
}

#[test]
fn a_process_and_the_node_have_a_history() {
    let web = Web::with(FLIGHT);
    let query = fixed(&web);
    let long = |it: &Value| it["t"].as_array().is_some_and(|it| it.len() >= 5);
    let of_process = until(|| Some(history(&web, &query, &web.token())).filter(long));
    assert_eq!(of_process["columns"][0], "cpu_percent");
    let n_times = of_process["t"].as_array().unwrap().len();
    assert_eq!(of_process["values"][1].as_array().unwrap().len(), n_times);
    assert!(of_process["values"][1][0].is_number(), "{of_process}");
    let node = history(&web, "", &web.token());
    assert_eq!(
        node["columns"],
        json!([
            "cpu_user_percent",
            "cpu_nice_percent",
            "cpu_system_percent",
            "cpu_irq_percent",
            "cpu_softirq_percent",
        ])
    );
    assert!(long(&node));
    assert_eq!(web.get("/history?pid=1&start=x", &[]).status, 400);
}

#[test]
fn without_the_token_or_a_flight_recorder_the_answer_says_why_there_is_no_history() {
    let web = Web::with(FLIGHT);
    let anonymous = history(&web, &fixed(&web), "X-Nothing: 1");
    assert_eq!((&anonymous["t"], &anonymous["values"]), (&json!([]), &json!([])));
    assert!(anonymous["why"].as_str().unwrap().contains("token"));
    let web = Web::with("");
    let off = history(&web, "", &web.token());
    assert!(off["why"].as_str().unwrap().contains("set flight.keep"), "{off}");
}

#[test]
fn a_page_that_is_opened_later_shows_the_earlier_history() {
    let web = Web::reading(FLIGHT, "procfs");
    let busy = Busy::start();
    let start = until(|| {
        let mut viewer = Viewer::connect(&web, "/feed");
        let rows = viewer.event("change")["new"].as_array()?.clone();
        rows.iter().find(|it| it[0] == busy.0.id()).map(|it| it[1].to_string())
    });
    let query = format!("?pid={}&start={start}", busy.0.id());
    let kept = |it: &Value| it["t"].as_array().is_some_and(|it| it.len() >= 10);
    let _ = until(|| Some(history(&web, &query, &web.token())).filter(kept));
    let Some(mut browser) = opened("a_page_that_is_opened_later", &web) else { return };
    open_details(&mut browser, "busy-for-the-page");
    browser.until("Number(document.querySelector('#details .past')?.dataset.kept) >= 10");
    browser.picture("history-light");
    assert_eq!(browser.errors, Vec::<String>::new());
}
