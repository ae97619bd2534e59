//! Reports, exports and recorded runs: resource usage computed from a recording.

use super::{Folder, printed, run, text};
use crate::root::privilege::granted;
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::field::ProcessField;
use monitor_model::read_spec::ReadSpec;
use monitor_recording::{Existing, Header, Writer};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Records the example world: `samples` samples, half a second apart.
fn example(folder: &Folder, samples: usize) -> PathBuf {
    let world = include_str!("../../../docs/examples/world.txt");
    let hostile = "\nprocess 666 comm=<b>&x uid=0 cpu_ns/s=1ms\n";
    let mut canned = Canned::scripted(&(world.to_owned() + hostile)).unwrap();
    let want = ReadSpec { costly: vec![ProcessField::Cgroup], ..ReadSpec::everything() };
    let file = folder.join("r");
    let header = Header { node: "node7".into(), processors: 2, ..Header::default() };
    let mut writer = Writer::create(&file, Existing::Keep, &header).unwrap();
    for _ in 0..samples {
        let mut sample = canned.read(&want).unwrap();
        canned.describe(&mut sample.processes, &want);
        writer.append(&sample).unwrap();
    }
    writer.finish().unwrap();
    file
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(args)).unwrap()
}

fn entry<'a>(report: &'a Value, name: &str) -> &'a Value {
    let entries = report["entries"].as_array().unwrap();
    entries.iter().find(|it| it["name"] == name).unwrap()
}

#[test]
fn entries_have_the_usage_of_their_processes() {
    let folder = Folder::new();
    let file = example(&folder, 21);
    for by in ["process", "command"] {
        let report = json(&["report", text(&file), "--by", by, "--format", "json"]);
        assert_eq!(report["length_ns"], 10_000_000_000_u64);
        let solver = entry(&report, "solver");
        assert_eq!(solver["cpu_ns"], 15_000_000_000_u64, "{by}");
        assert_eq!(solver["cpu_percent_mean"], 150.0);
        assert_eq!(solver["cpu_percent_max"], 150.0);
        assert_eq!(solver["rss_max_bytes"], 512_u64 << 20);
        let written = solver["written_bytes"].as_u64().unwrap();
        assert!(written.abs_diff(40 << 20) <= 1, "{written}");
        assert_eq!(entry(&report, "true")["ended"], 1);
        assert_eq!(entry(&report, "stage")["rss_max_bytes"], 2_u64 << 20);
        assert_eq!(report["total"]["written_bytes"], written);
        assert_eq!(report["brief"][0]["name"], "true");
    }
    let cgroups = json(&["report", text(&file), "--by", "cgroup", "--format", "json"]);
    // Includes the helper, which its parent started.
    assert_eq!(entry(&cgroups, "/job/7")["cpu_ns"], 15_001_000_000_u64);
}

#[test]
fn a_time_range_is_counted_alone() {
    let folder = Folder::new();
    let file = example(&folder, 21);
    let args = ["report", text(&file), "--format", "json", "--from", "+2s", "--to", "+6s"];
    let report = json(&args);
    assert_eq!(entry(&report, "solver")["cpu_ns"], 6_000_000_000_u64);
    assert_eq!(report["samples"], 9);
}

#[test]
fn the_table_is_eighty_columns_wide_and_names_the_node() {
    let folder = Folder::new();
    let file = example(&folder, 21);
    let table = printed(&["report", text(&file)]);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.starts_with("node7  "), "{table}");
    for part in ["15s of CPU, 1.50 processors busy on average", "solver", "1 processes lived"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    let one = printed(&["report", text(&file), "--by", "process", "--top", "1"]);
    assert!(one.contains("200 ") && one.contains("and 4 more with lower usage"), "{one}");
}

/// Position of the first frame after the copies of the header.
fn after_headers(bytes: &[u8]) -> usize {
    let frame = |at: usize| {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        at + 64 + usize::try_from(length).unwrap()
    };
    frame(frame(frame(16)))
}

#[test]
fn without_readable_samples_it_reports_what_is_missing_instead_of_zeros() {
    let folder = Folder::new();
    let file = example(&folder, 23);
    let whole = std::fs::read(&file).unwrap();
    let block = after_headers(&whole);
    let mut flipped = whole.clone();
    flipped[block + 70] ^= 1;
    let path = text(&file);
    let cut = format!("has no sample: {path} is truncated or damaged from byte {block} on");
    let damaged =
        "has no sample in that time range: the last 23 samples are damaged in ".to_owned();
    for (bytes, why) in [(&whole[..block + 70], cut), (&flipped[..], damaged)] {
        std::fs::write(&file, bytes).unwrap();
        let got = run(&["report", text(&file)]);
        let stderr = String::from_utf8_lossy(&got.stderr);
        assert!(stderr.contains(&why), "{stderr}");
        assert_eq!((got.status.code(), got.stdout.len()), (Some(1), 0));
    }
}

#[test]
fn a_page_and_its_plots_are_self_contained() {
    let folder = Folder::new();
    let file = example(&folder, 61);
    let (svg, html) = (folder.join("p.svg"), folder.join("p.html"));
    let _table = printed(&["report", text(&file), "--svg", text(&svg), "--html", text(&html)]);
    let svg = std::fs::read_to_string(svg).unwrap();
    let html = std::fs::read_to_string(html).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    for text in [&svg, &html] {
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("://") && !text.contains("<script") && !text.contains("<b>"));
        assert!(text.contains("&lt;b&gt;") && text.contains("CPU, percent of one processor"));
        assert!(!text.contains("NaN"));
        // The solver is present throughout, at 150 percent.
        assert!(text.matches("class=\"area").count() >= 3);
    }
}

#[test]
fn an_export_is_the_same_as_a_replay() {
    let folder = Folder::new();
    let file = example(&folder, 21);
    let replayed = printed(&["replay", text(&file), "--format", "csv"]);
    assert_eq!(printed(&["export", text(&file)]), replayed);
    let disks = printed(&["export", text(&file), "disk", "--format", "json", "--from", "-1s"]);
    assert_eq!(disks.lines().count(), 3);
    assert!(disks.contains("\"written_bytes_per_s\":4194304.0"), "{disks}");
    let refused = run(&["export", text(&file), "--format", "table"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_run_can_be_recorded() {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["run", "--backend", "procfs", "--record", text(&file), "--"];
    let output = run(&[&args[..], &["sh", "-c", "exit 9"]].concat());
    assert_eq!(output.status.code(), Some(9));
    let again = run(&[&args[..], &["true"]].concat());
    assert_eq!(again.status.code(), Some(2), "the file exists");
    assert!(printed(&["replay", text(&file), "--format", "json"]).lines().count() >= 1);
}

#[test]
fn root_a_recorded_run_has_every_descendant() {
    if !granted("root_a_recorded_run_has_every_descendant") {
        return;
    }
    let folder = Folder::new();
    let file = folder.join("r");
    let script = "i=0; while [ $i -lt 23 ]; do /bin/true; i=$((i+1)); done";
    let args = ["run", "--backend", "ebpf", "--record", text(&file), "--", "sh", "-c", script];
    assert!(run(&args).status.success());
    let lines = printed(&["replay", text(&file), "--format", "json", "--fields", "comm,ended"]);
    let mut ended = BTreeSet::new();
    for line in lines.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        for process in sample["processes"].as_array().unwrap() {
            assert!(["sh", "true"].contains(&process["comm"].as_str().unwrap()), "{process}");
            if process["ended"] == true && process["comm"] == "true" {
                ended.insert(process["pid"].as_u64().unwrap());
            }
        }
    }
    assert_eq!(ended.len(), 23, "{lines}");
}
