//! The output of the program in every format, from the backend with fixed values.

use std::process::{Child, Command, Output, Stdio};

fn monitor(words: &str) -> Command {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    it.args(words.split_whitespace()).env("MONITOR_BACKEND", "test").stdin(Stdio::null());
    it
}

fn run(words: &str) -> Output {
    monitor(words).output().expect("the program runs")
}

/// Starts a watch with a long interval; returns after its first sample.
fn waiting(words: &str) -> Child {
    use std::io::{BufRead, BufReader};
    let mut child = monitor(words).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("a pipe");
    let read = BufReader::new(out).read_line(&mut line).expect("text");
    assert!(read > 0, "the first sample comes at once");
    child
}

#[track_caller]
fn check(words: &str, code: i32, stdout: &str, stderr: &str) {
    let got = run(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let got = (got.status.code(), text(&got.stdout), text(&got.stderr));
    assert_eq!(got, (Some(code), stdout.to_owned(), stderr.to_owned()));
}

#[test]
fn an_unknown_process_is_reported_and_nothing_printed() {
    check("sample --pid 3 --format json", 6, "", "monitor: no process 3\n");
}

#[test]
fn known_processes_are_printed_beside_unknown_ones() {
    let csv = "time_unix_ns,pid,comm\n1767225600000000000,1234,test-stats\n";
    check("sample --pid 3,1234 --format csv --fields pid,comm", 6, csv, "monitor: no process 3\n");
}

#[test]
fn an_unknown_device_is_reported_and_the_rest_printed() {
    let csv = "time_unix_ns,device,reads\n1767225600000000000,sda,1\n";
    let said = "monitor: no disk sdz: there are sda, sdb\n";
    check("sample disk sdz sda --format csv --fields device,reads", 4, csv, said);
}

#[test]
fn an_unsupported_backend_is_an_error_of_one_line() {
    let got = run("sample --backend unsupported");
    assert_eq!((got.status.code(), got.stdout.as_slice()), (Some(1), &b""[..]));
    assert_eq!(String::from_utf8_lossy(&got.stderr).lines().count(), 1);
}

#[test]
fn each_sample_is_one_object_and_all_but_the_first_have_an_interval() {
    let got = run("watch all --every 1ms --count 3 --format json");
    let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&got.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let intervals: Vec<_> = lines.iter().map(|line| line["interval_ns"].as_u64()).collect();
    assert_eq!(intervals, [None, Some(1_000_000_000), Some(1_000_000_000)]);
    let (first, node) = (&lines[0], &lines[0]["node_stats"]);
    assert_eq!(first["processes"][0]["comm"], "test-stats");
    assert_eq!(
        (node["disks"].as_array().map(Vec::len), node["nets"].as_array().map(Vec::len)),
        (Some(2), Some(3))
    );
}

#[test]
fn the_node_alone_has_the_same_object_and_no_processes() {
    let object = |words| -> serde_json::Value {
        serde_json::from_slice(&run(words).stdout).expect("an object")
    };
    let (node, all) = (object("sample node --format json"), object("sample all --format json"));
    assert_eq!(node["node_stats"], all["node_stats"]);
    assert!(node.get("processes").is_none());
}

#[test]
fn a_table_has_eighty_columns_and_names_its_backend() {
    let text = String::from_utf8_lossy(&run("sample all").stdout).into_owned();
    assert!(text.starts_with("test-node  test  1 process "));
    assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
    assert!(!text.contains('\x1b'), "no colour without a terminal");
}

#[test]
fn an_interrupt_ends_it_with_130_and_a_termination_with_0() {
    for (signal, code) in [("INT", 130), ("TERM", 0)] {
        let mut child = waiting("watch --every 1h --format json");
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "SIG{signal}");
    }
}

#[test]
fn a_pipe_that_is_closed_between_two_samples_is_a_clean_end() {
    let mut child = waiting("watch --every 10ms --format json");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_full_device_is_reported_in_one_line() {
    let said = "monitor: cannot write /dev/full: No space left on device (os error 28)\n";
    check("watch --every 1ms --format json --output /dev/full", 1, "", said);
}

/// A new folder, with a file that has content.
fn kept(name: &str) -> (std::path::PathBuf, String) {
    let dir = std::env::temp_dir().join(format!("monitor-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let file = dir.join("out");
    std::fs::write(&file, "before").expect("a file");
    let path = file.to_str().expect("a path of text").to_owned();
    (dir, path)
}

fn content(path: &str) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

#[test]
fn a_file_keeps_its_content_until_there_is_a_sample() {
    let (dir, path) = kept("keeps");
    for words in ["sample --pid 3", "watch --pid 3", "sample --backend unsupported"] {
        assert_ne!(run(&format!("{words} --output {path}")).status.code(), Some(0));
        assert_eq!(content(&path), "before", "{words}");
    }
    std::fs::remove_dir_all(dir).expect("the folder can be removed");
}

#[test]
fn the_file_of_a_run_keeps_its_content_until_the_command_has_ended() {
    let (dir, path) = kept("run");
    let run = |command: &str| {
        let mut it = monitor(&format!("run --format json --output {path} -- {command}"));
        it.env("MONITOR_BACKEND", "procfs").output().expect("it runs")
    };
    assert_eq!(run("/nowhere").status.code(), Some(127));
    assert_eq!(content(&path), "before");
    assert_eq!(run(&format!("cat {path}")).stdout, b"before");
    assert!(content(&path).starts_with("{\"schema_version\""), "{}", content(&path));
    std::fs::remove_dir_all(dir).expect("the folder can be removed");
}

#[test]
fn a_file_is_replaced_atomically_without_temporary_files_left() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, path) = kept("whole");
    let mode = || std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("the mode can be set");
    check(&format!("sample --format csv --fields pid --output {path}"), 0, "", "");
    assert_eq!(content(&path), "time_unix_ns,pid\n1767225600000000000,1234\n");
    assert_eq!((mode(), std::fs::read_dir(&dir).expect("a folder").count()), (0o640, 1));
    std::fs::remove_dir_all(dir).expect("the folder can be removed");
}

#[test]
fn a_device_is_written_in_place() {
    let said = "monitor: cannot write /dev/full: No space left on device (os error 28)\n";
    check("sample --format json --output /dev/full", 1, "", said);
    check("sample --format csv --fields pid --output /dev/null", 0, "", "");
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata("/dev/null").expect("it is there").file_type();
    assert!(kind.is_char_device());
}
