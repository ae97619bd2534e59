//! `mon/` by category, and `mon/ctl`: what a category has, and which rates and thresholds are set.

use super::files::{Raw, attach, own, read};
use super::files_session::{Files, refused, script, write};
use crate::served::Served;
use monitor_ninep::Request;

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
    assert_eq!(names(&mut it, "mon"), "cpu ctl desc disk event log net node pull push");
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
    assert_eq!(refused(&mut it, "mon/ctl", "disable cpu\n"), "Operation not permitted");
    assert!(read(&mut it, "err").contains("no service turns one off"));
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
