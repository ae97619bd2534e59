//! `mon/` by category, and `mon/ctl`: what a category has, and which rates and thresholds are set.

use super::files::{Raw, attach, own, read};
use super::files_session::{Files, refused, script, write};
use crate::root::privilege::able;
use crate::served::Served;
use monitor_ninep::Request;
use std::process::{Command, Stdio};

/// Read and write.
const BOTH: u8 = 2;

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

fn names(client: &mut Files, path: &str) -> String {
    let names: Vec<String> = client.list(path).unwrap().into_iter().map(|it| it.name).collect();
    names.join(" ")
}

#[test]
fn a_category_has_a_description_samples_and_events_of_its_own() {
    let served = Served::with("");
    let mut it = own(&served);
    assert_eq!(names(&mut it, "mon"), "cpu ctl desc disk event hw log net node pull push syslog");
    for category in ["cpu", "disk", "net", "node"] {
        let file = |name: &str| format!("mon/{category}/{name}");
        assert_eq!(names(&mut it, &format!("mon/{category}")), "desc event pull push");
        let desc = read(&mut it, &file("desc"));
        assert!(desc.starts_with(&format!("(desc (cat {category} (var ")), "{desc}");
        assert_eq!(desc.matches("(cat ").count(), 1);
        // A stat is a reading, and the next open has its text.
        let length = it.stat(&file("pull")).unwrap().length;
        let sample = read(&mut it, &file("pull"));
        assert_eq!(sample.len() as u64, length);
        assert!(sample.contains(&format!(" ({category}")), "{sample}");
        assert_eq!(sample.matches(" (cpu").count(), usize::from(category == "cpu"), "{sample}");
    }
    assert_eq!(read(&mut it, "mon/cpu/../../arch"), read(&mut it, "arch"));
    let mut stream = raw(&served);
    stream.open(1, "mon/cpu/push", BOTH);
    stream.ask(&Request::Write { fid: 1, offset: 0, content: b"(filter (every 20))" });
    for want in 1..=3 {
        let line = stream.read(1, 0);
        assert!(line.contains(&format!(" (seq {want}) (cpu (")), "{line}");
        assert!(!line.contains("(node (") && !line.contains("(net"), "{line}");
    }
    for other in ["(filter (cat net))", "(filter (> node.load1 1))"] {
        assert_eq!(refused(&mut it, "mon/cpu/push", other), "Invalid argument", "{other}");
    }
    assert!(it.open_to_write("mon/cpu/pull").is_err());
}

#[test]
fn rates_and_thresholds_are_set_and_what_exceeds_one_is_an_event() {
    let served = Served::with("");
    let mut it = own(&served);
    let rates = "(ctl (rate node 1000) (rate cpu 1000) (rate disk 1000) (rate net 1000))\n";
    assert_eq!(read(&mut it, "mon/ctl"), rates);
    write(&mut it, "mon/ctl", "rate node 20\nrate cpu 3600000\n");
    // Each open has the rate of its category, until it names another.
    let mut streams = raw(&served);
    streams.open(1, "mon/node/push", 0);
    for _ in 0..4 {
        assert!(streams.read(1, 0).contains("(uptime_ns "));
    }
    streams.open(5, "mon/cpu/push", 0);
    assert!(streams.read(5, 0).contains(" (seq 1) (cpu ("));
    streams.send(1, &Request::Read { fid: 5, offset: 0, count: 8000 });
    streams.send(2, &Request::Flush { old: 1 });
    assert_eq!(streams.reply_or_content(), Err("flush".to_owned()));
    for (fid, path) in [(2, "mon/event"), (3, "mon/node/event"), (4, "mon/cpu/event")] {
        streams.open(fid, path, 0);
    }
    write(&mut it, "mon/ctl", "threshold node.uptime_ns > 1\nthreshold node.load1 > 1e9\n");
    let event = streams.read(2, 0);
    let number = "(threshold (number node.uptime_ns) (condition 'node.uptime_ns > 1') (holds yes) ";
    assert!(event.contains(number) && event.contains(" (value "), "{event}");
    // What a category has is of its own thresholds alone.
    write(&mut it, "state", "x");
    assert_eq!(streams.read(3, 0), event);
    assert!(read(&mut it, "mon/ctl").ends_with(" (threshold node.load1 > 1000000000))\n"));
    streams.send(5, &Request::Read { fid: 4, offset: 0, count: 8000 });
    write(&mut it, "mon/ctl", "threshold cpu.idle_ns >= 0\nrate cpu 20\n");
    let of_cpu = streams.content();
    assert!(of_cpu.contains("(number cpu.idle_ns)") && of_cpu.contains(" (row 0) "), "{of_cpu}");
    assert_eq!(of_cpu.lines().count(), 1);
    write(&mut it, "mon/ctl", "clear node.uptime_ns\nclear node.load1\nclear cpu.idle_ns\n");
    assert!(!read(&mut it, "mon/ctl").contains("threshold"));
    for odd in ["clear node.load1\n", "rate gpu 5\n", "rate cpu 1\n", "threshold a > 1\n", "odd\n"]
    {
        assert_eq!(refused(&mut it, "mon/ctl", odd), "Invalid argument", "{odd:?}");
    }
    // What is turned off is in no sample of all categories, and in its own directory.
    write(&mut it, "mon/ctl", "disable cpu\n");
    assert!(read(&mut it, "mon/ctl").ends_with(" (disabled cpu))\n"));
    assert!(!read(&mut it, "mon/pull").contains(" (cpu"));
    assert!(read(&mut it, "mon/cpu/pull").contains(" (cpu ("));
    write(&mut it, "mon/ctl", "enable cpu\n");
    assert!(read(&mut it, "mon/pull").contains(" (cpu ("));
    let mut none = attach(&served, "none");
    assert_eq!(read(&mut none, "mon/ctl"), read(&mut it, "mon/ctl"));
    assert_eq!(refused(&mut none, "mon/ctl", "rate cpu 20\n"), "Permission denied");
}

#[test]
fn a_session_has_a_category_and_thresholds_of_its_own() {
    let uid = rustix::process::geteuid().as_raw();
    let config = format!("[files]\nexecute = [{uid}]\n");
    let served = Served::started(&config, crate::served::monitor(), "procfs");
    let mut it = own(&served);
    let at = script(&mut it, "exec sleep 98760");
    assert_eq!(names(&mut it, &format!("{at}/mon")), "ctl desc event log proc pull push");
    assert_eq!(names(&mut it, &format!("{at}/mon/proc")), "desc event pull push");
    let desc = read(&mut it, &format!("{at}/mon/proc/desc"));
    assert_eq!(desc, read(&mut it, &format!("{at}/mon/proc/../desc")));
    assert!(read(&mut it, &format!("{at}/mon/proc/pull")).contains(" (proc ("));
    let mut reader = raw(&served);
    reader.open(1, &format!("{at}/mon/log"), 0);
    write(&mut it, &format!("{at}/mon/ctl"), "rate proc 20\nthreshold proc.threads >= 1\n");
    let mut log = String::new();
    while !log.contains("(threshold ") {
        log.push_str(&reader.read(1, log.len() as u64));
    }
    assert!(log.contains("(number proc.threads)") && log.contains(" (row "), "{log}");
    let text = read(&mut it, &format!("{at}/mon/ctl"));
    assert_eq!(text, "(ctl (rate proc 20) (threshold proc.threads >= 1))\n");
    assert_eq!(read(&mut it, "mon/ctl").matches("1000").count(), 4);
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    // The node has no threshold, and the session took its own along.
    let monitors = || served.status()["monitors"] == 0;
    crate::deadline::until(|| monitors().then_some(()));
}

/// A setting of the kernel, as a number.
fn kernel(name: &str) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn root_counters_of_processors_are_read_while_a_reader_is_there() {
    if !able("root_counters_of_processors_are_read_while_a_reader_is_there") {
        return;
    }
    let served = Served::with("");
    let mut it = own(&served);
    assert_eq!(names(&mut it, "mon/hw"), "desc pull push");
    let desc = read(&mut it, "mon/hw/desc");
    // What this machine cannot count is named with the reason.
    for number in ["cycles", "instructions", "page_faults", "context_switches", "migrations"] {
        let (has, lacks) =
            (format!("(var {number} counter count"), format!("(unsupported {number} '"));
        assert!(desc.contains(&has) != desc.contains(&lacks), "{number}: {desc}");
    }
    let descriptors = served.descriptors();
    let first = read(&mut it, "mon/hw/pull");
    assert!(first.contains(" (hw (0 (") && !first.contains("(unsupported"), "{first}");
    assert!(served.descriptors() > descriptors);
    assert!(!read(&mut it, "mon/pull").contains(" (hw"));
    // Page faults of a program that makes at least this number.
    let faults = |text: &str| -> u64 {
        let of_row = |part: &str| part.split(')').next().unwrap().parse::<u64>().unwrap();
        text.split("(page_faults ").skip(1).map(of_row).sum()
    };
    let size = format!("bs={}", 200 * rustix::param::page_size());
    let before = faults(&read(&mut it, "mon/hw/pull"));
    let mut program = Command::new("dd");
    program.args(["if=/dev/zero", "of=/dev/null", &size, "count=1"]).stderr(Stdio::null());
    assert!(program.status().unwrap().success());
    let after = faults(&read(&mut it, "mon/hw/pull"));
    assert!(after >= before + 200, "{before} {after}");
    let mut stream = raw(&served);
    stream.open(1, "mon/hw/push", BOTH);
    let filter = b"(filter (> hw.context_switches 0) (every 20))";
    stream.ask(&Request::Write { fid: 1, offset: 0, content: filter });
    for seq in 1..=3 {
        assert!(stream.read(1, 0).contains(&format!("(seq {seq}) (hw (")));
    }
    assert_eq!(refused(&mut it, "mon/hw/push", "(filter (cat cpu))"), "Invalid argument");
    // A user without a right counts as the kernel lets it.
    let mut none = attach(&served, "none");
    let read = none.read_while("mon/hw/pull", |_| true);
    assert_eq!(read.is_ok(), kernel("perf_event_paranoid") <= 0, "{read:?}");
    let granted = Served::with("[policy]\nobserve-all = [\"daemon\"]\n");
    assert!(attach(&granted, "daemon").read_while("mon/hw/pull", |_| true).is_ok());
}

#[test]
fn root_records_of_the_log_of_the_kernel_are_events() {
    if !able("root_records_of_the_log_of_the_kernel_are_events") {
        return;
    }
    let served = Served::with("");
    let mut it = own(&served);
    assert_eq!(names(&mut it, "mon/syslog"), "desc event log");
    assert!(read(&mut it, "mon/syslog/desc").starts_with("(desc (cat syslog (var priority "));
    let mut reader = raw(&served);
    reader.open(1, "mon/syslog/event", 0);
    reader.open(2, "mon/syslog/log", 0);
    // A record of this test, as a program that starts the system writes them.
    let mark = format!("monitor test's (mark) {}", std::process::id());
    std::fs::write("/dev/kmsg", format!("<13>{mark}\n")).unwrap();
    let want = "(priority 5) (facility 1) (number ";
    let mut event = reader.read(1, 0);
    while !event.contains("monitor test''s") {
        event = reader.read(1, 0);
    }
    let line = event.lines().find(|it| it.contains("monitor test''s")).unwrap();
    assert!(line.starts_with("(event (seq ") && line.contains(want), "{line}");
    assert!(line.ends_with(&format!("(text 'monitor test''s (mark) {}')))", std::process::id())));
    let (mut log, mut at) = (String::new(), 0);
    while !log.contains(line) {
        let part = reader.read(2, at);
        at += part.len() as u64;
        log.push_str(&part);
    }
    let mut none = Raw::attached_as(&served, "none");
    none.ask(&Request::Walk { fid: 0, new: 1, names: vec!["mon", "syslog", "log"] });
    none.send(9, &Request::Open { fid: 1, mode: 0 });
    let is_refused = none.reply() == "error Permission denied";
    assert_eq!(is_refused, kernel("dmesg_restrict") != 0);
}
