//! Every form of JSON that a command prints: its keys and their types.
//!
//! Output that depends on neither machine nor time is frozen whole, here and in `recording.rs`.
//! Of the rest, keys and types are frozen and values are masked.

use super::shape::Shape;
use super::{check, check_compiled, golden, printed, printed_with, program};
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Served;
use serde_json::Value;
use std::process::Command;

/// The output with the test backend.
fn fixed(words: &[&str]) -> String {
    printed(&[words, &["--backend", "test", "--format", "json"]].concat())
}

/// The output of a command that asks a service.
fn asked(served: &Served, words: &str) -> String {
    printed_with(0, served.command(&format!("{words} --format json")))
}

#[test]
fn a_sample_of_the_test_backend_is_the_same_on_every_machine() {
    let mut out = String::new();
    for words in [
        &["sample", "all"][..],
        &["sample", "--threads", "--fields", "pid,comm,pss_bytes,user,job"],
        &["sample", "--group-by", "user"],
    ] {
        out += &format!("{}\n{}", words.join(" "), fixed(words));
    }
    let watch = ["watch", "--every", "10ms", "--count", "2", "--fields", "pid,cpu_percent"];
    out += &format!("{}\n", watch.join(" "));
    for line in fixed(&watch).lines() {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        // A slow machine skips readings and adds a note.
        sample["notes"] = Value::Array(Vec::new());
        out += &format!("{sample}\n");
    }
    check("json/fixed.jsonl", &out);
}

#[test]
fn doctor_prints_capabilities_and_host() {
    let mut out = String::new();
    for (backend, code) in [("test", 0), ("procfs", 3)] {
        let words = ["doctor", "--backend", backend, "--format", "json"];
        let text = printed_with(code, program(&words));
        let mut report: Value = serde_json::from_str(&text).unwrap();
        let names = |list: &Value| {
            let names = list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
            names.collect::<Vec<_>>().join("\n  ")
        };
        let capabilities = names(&report["capabilities"]);
        for circumstance in report["host"].as_array_mut().unwrap() {
            // Both keys are present only where the host lacks something.
            let members = circumstance.as_object_mut().unwrap();
            let _rare = (members.remove("blocks"), members.remove("fix"));
        }
        let shape = Shape::from_value(&report).text(&[]);
        out += &format!("doctor, {backend}\n{shape}capabilities\n  {capabilities}\n");
    }
    check("json/doctor.txt", &out);
}

#[test]
fn fields_print_their_names_units_and_kinds() {
    let text = printed(&["fields", "--format", "json"]);
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let line = |it: &Value| {
        format!("{} {} {} {}\n", it["category"], it["name"], it["unit"], it["kind"])
            .replace('"', "")
    };
    let fields: String = all.iter().map(line).collect();
    check("json/fields.txt", &(Shape::from_value(&Value::Array(all)).text(&[]) + &fields));
}

#[test]
fn services_print_one_object_each() {
    let text = printed(&["services", "--format", "json"]);
    let shape = Shape::of_lines(&text).text(&[]);
    // `language.rs` freezes the kinds of each service.
    let line = |it: &str| match it.split_once(".kind  ") {
        Some((place, _)) => format!("{place}.kind  text\n"),
        None => format!("{it}\n"),
    };
    check("json/services.txt", &shape.lines().map(line).collect::<String>());
}

#[test]
fn status_prints_the_resources_of_the_service() {
    // No process listens on this port, so pushes fail.
    let far = "[otlp]\nendpoint = \"http://127.0.0.1:9\"\nevery = \"50ms\"\n";
    let http = "[http]\nlisten = \"127.0.0.1:0\"\n";
    let bare = asked(&Served::with(""), "status");
    let served = Served::with(&format!("{http}{far}[budget]\nwindow = \"1s\"\nshare = \"100%\"\n"));
    let full = until(|| {
        let text = asked(&served, "status");
        let own: Value = serde_json::from_str(&text).unwrap();
        let has_all = own["otlp"]["trouble"].is_string() && own["budget"]["used"].is_number();
        has_all.then_some(text)
    });
    let open = ["lost", "refused", "http.refused"];
    let shape = |text: &str| Shape::of_lines(text).text(&open);
    check("json/status.txt", &format!("status\n{}with all\n{}", shape(&bare), shape(&full)));
}

#[test]
fn start_list_and_events_print_the_objects_of_the_socket() {
    let served = Served::with("");
    let mut out = String::new();
    let line = asked(&served, "start short node --fields load1 --every 10ms --count 2");
    out += &format!("start\n{}", Shape::of_lines(&line).text(&["sample"]));
    let _said = printed_with(
        0,
        served.command("start load node --fields load1 --every 20ms --detach --lease 1m"),
    );
    let has_kept = |text: &String| {
        let list: Value = serde_json::from_str(text).unwrap();
        list[0]["kept"].as_u64() > Some(0)
    };
    let list = until(|| Some(asked(&served, "list")).filter(has_kept));
    out += &format!("list\n{}", Shape::of_lines(&list).text(&[]));
    let events = asked(&served, "events load");
    out += &format!("events\n{}", Shape::of_lines(&events).text(&["sample"]));
    check("json/monitors.txt", &out);
}

#[test]
fn job_prints_jobs_and_ranks() {
    let namespace = format!("golden-{}", std::process::id());
    let rank = |rank: u32| {
        let mut command = Command::new("cat");
        let _same = command.env("PMIX_NAMESPACE", &namespace).env("PMIX_RANK", rank.to_string());
        Guarded::run(&mut command)
    };
    let ranks = [0, 1, 2].map(rank);
    let list = until(|| {
        let text = printed(&["job", "list", "--format", "json"]);
        let mut all: Value = serde_json::from_str(&text).unwrap();
        // Other tests run jobs meanwhile.
        all["notes"] = Value::Array(Vec::new());
        all["jobs"].as_array_mut().unwrap().retain(|it| it["id"] == *namespace);
        let is_whole = all["jobs"][0]["local_ranks"] == ranks.len();
        is_whole.then_some(all)
    });
    let words = ["job", "show", &namespace, "--for", "20ms", "--format", "json"];
    let text = printed(&[&words[..], &["--backend", "procfs"]].concat());
    let words = ["job", "env", "--explain", "set:A=1", "unset:B", "--from", "/dev/null"];
    let env = printed(&[&words[..], &["--format", "json"]].concat());
    // A short interval has a note.
    let shape = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["notes"] = Value::Array(Vec::new());
        Shape::from_value(&value).text(&[])
    };
    let list = Shape::from_value(&list).text(&[]);
    let all = format!("job list\n{list}job show\n{}job env\n{}", shape(&text), shape(&env));
    check("json/job.txt", &all);
}

#[test]
fn run_prints_one_object_for_a_command() {
    let mut out = String::new();
    for (backend, code, script) in [("test", 3, "exit 3"), ("test", 143, "kill -TERM $$")] {
        let words = ["run", "--backend", backend, "--format", "json", "--", "sh", "-c", script];
        let text = printed_with(code, program(&words));
        out += &format!("run, {backend}: {script}\n{}", Shape::of_lines(&text).text(&[]));
    }
    check("json/run.txt", &out);
}

#[test]
fn a_report_prints_one_entry_for_each_group() {
    let tiny = golden("recording/tiny.mon");
    let tiny = tiny.to_str().unwrap();
    let mut out = String::new();
    for by in ["command", "process", "job", "user", "cgroup"] {
        let text = printed(&["report", tiny, "--by", by, "--format", "json"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        out += &format!("report --by {by}\n{report:#}\n");
    }
    check("json/report.txt", &out);
}

#[test]
fn root_when_prints_one_object_for_each_event_and_a_summary() {
    if !granted("root_when_prints_one_object_for_each_event_and_a_summary") {
        return;
    }
    let mut out = String::new();
    for (event, script) in [
        ("end", "exit 3"),
        ("end", "kill -TERM $$"),
        ("exec", "exec /bin/sh -c :"),
        ("signal", "trap : USR1; kill -USR1 $$"),
    ] {
        let words =
            ["when", event, "print,count", "--format", "json", "--", "/bin/sh", "-c", script];
        let got = program(&words).output().unwrap();
        let text = String::from_utf8(got.stdout).unwrap();
        let shape = Shape::of_lines(&text).text(&[]);
        // A process that ended before the monitor could read its name has none.
        let shape = shape.replace("comm  text ?\n", "");
        out += &format!("when {event}: {script}\n{shape}");
    }
    check_compiled("json/when.txt", include_str!("../../golden/json/when.txt"), &out);
}
