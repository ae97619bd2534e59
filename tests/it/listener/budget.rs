//! Above its budget the service sheds what was requested beyond the base, and reports it.

use crate::deadline::until;
use crate::served::{Served, write};
use rustix::process::Signal;
use serde_json::Value;

/// The notes of a sample that say what was given up.
fn given_up(sample: &Value) -> Vec<String> {
    let notes = sample["notes"].as_array().cloned().unwrap_or_default();
    let texts = notes.iter().filter_map(|note| note.as_str().map(str::to_owned));
    texts.filter(|text| text.contains("given up")).collect()
}

#[test]
fn shed_capabilities_are_reported_in_samples_status_doctor_and_log_and_come_back() {
    let config = "[budget]\nwindow = \"50ms\"\nshare = ";
    let served = Served::with(&format!("{config}\"0.000001%\"\n"));
    let mut session = served.connect();
    let asked = r#"{"fields":["cpu_ns"],"capabilities":["exact-cpu"],"every_ns":20000000}"#;
    let _first = session.result("monitor", asked);
    let note = until(|| {
        let event = session.next_json().expect("it goes on");
        given_up(&event["params"]["sample"]).pop()
    });
    assert!(note.starts_with("no exact-cpu: given up to keep within the budget"), "{note}");
    assert_eq!(served.status()["budget"]["shed"], Value::from(["exact-cpu"].as_slice()));
    assert!(served.log().contains("exact-cpu is given up"), "{}", served.log());
    let notes = served.connect().result("probes", "{}")["notes"].to_string();
    assert!(notes.contains("no exact-cpu: given up"), "{notes}");

    // A client that did not request it gets all that it requested, and no note.
    let whole = served.connect().result("monitor", r#"{"fields":["cpu_ns"]}"#);
    assert_eq!((&whole["status"], given_up(&whole["sample"]).len()), (&"SUCCESS".into(), 0));
    let asked = r#"{"fields":["cpu_ns"],"capabilities":["exact-cpu"]}"#;
    assert_eq!(served.connect().result("monitor", asked)["status"], "PARTIAL_SUCCESS");

    write(&served.config(), &format!("{config}\"100%\"\n"));
    served.signal(Signal::HUP);
    until(|| {
        let event = session.next_json().expect("it goes on");
        given_up(&event["params"]["sample"]).is_empty().then_some(())
    });
    assert!(served.log().contains("exact-cpu is back"), "{}", served.log());
}
