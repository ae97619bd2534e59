//! Tflush before, while and after the reply, for reads, writes and lines of `ctl` of a session: no
//! reply follows Rflush, and no byte is lost for the next reader. A fork bomb under `wipe`.

use super::files::{Raw, own, read};
use super::files_session::{script, served, session, write};
use crate::deadline::until;
use crate::root::privilege::able;
use crate::served::Served;
use monitor_ninep::Request;
use monitor_ninep::client::ClientError;
use std::process::Command;

/// The type of Rwrite, as `reply` has it.
const WRITTEN: &str = "119";

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

/// Flushes the request with tag 1, and returns its reply if that comes before Rflush. Another
/// request shows that none follows.
fn flush(raw: &mut Raw) -> Option<Result<String, String>> {
    raw.send(2, &Request::Flush { old: 1 });
    let first = raw.reply_or_content();
    let replied = (first != Err("flush".to_owned())).then_some(first);
    if replied.is_some() {
        assert_eq!(raw.reply(), "flush");
    }
    raw.send(3, &Request::Stat { fid: 0 });
    assert_eq!(raw.reply(), "stat");
    replied
}

#[test]
fn a_flushed_read_of_output_loses_no_byte() {
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "cat");
    let mut reader = raw(&served);
    reader.open(1, &format!("{at}/stdout"), 0);
    let mut seen = String::new();
    let ask = |reader: &mut Raw, at: usize| {
        reader.send(1, &Request::Read { fid: 1, offset: at as u64, count: 100 });
    };
    // Before there is anything.
    ask(&mut reader, 0);
    assert_eq!(flush(&mut reader), None);
    let mut want = String::new();
    for n in 0..40 {
        let line = format!("line {n}\n");
        want.push_str(&line);
        ask(&mut reader, seen.len());
        if n % 2 == 0 {
            // While it arrives.
            write(&mut it, &format!("{at}/stdin"), &line);
            if let Some(text) = flush(&mut reader) {
                seen.push_str(&text.unwrap());
            }
        } else {
            // After the reply.
            write(&mut it, &format!("{at}/stdin"), &line);
            seen.push_str(&reader.content());
            assert_eq!(flush(&mut reader), None);
        }
    }
    while seen.len() < want.len() {
        ask(&mut reader, seen.len());
        seen.push_str(&reader.content());
    }
    assert_eq!(seen, want);
    write(&mut it, &format!("{at}/ctl"), "close stdin\n");
    assert_eq!(read(&mut it, &format!("{at}/stdout")), want);
}

#[test]
fn a_flushed_write_of_input_has_no_reply_and_its_pipe_goes_on() {
    let served = served();
    let mut it = own(&served);
    // It reads nothing until there is a file.
    let at = script(&mut it, "until test -e go; do sleep 0.05; done; tr -d x | head -c 5");
    let mut writer = raw(&served);
    writer.open(1, &format!("{at}/stdin"), 1);
    let content = [b'x'; 8000];
    let mut room = true;
    while room {
        writer.send(1, &Request::Write { fid: 1, offset: 0, content: &content });
        // The pipe has 64 KiB; the write that does not fit waits.
        room = flush(&mut writer).is_some();
    }
    // Behind what has entered the pipe, and flushed after its reply.
    it.open_to_write(&format!("{at}/fs/go")).unwrap();
    it.close().unwrap();
    writer.send(1, &Request::Write { fid: 1, offset: 0, content: b"12345" });
    assert_eq!(writer.reply(), WRITTEN);
    assert_eq!(flush(&mut writer), None);
    write(&mut it, &format!("{at}/ctl"), "close stdin\n");
    assert_eq!(read(&mut it, &format!("{at}/stdout")), "12345");
}

#[test]
fn a_flushed_line_of_ctl_is_carried_out_once_and_has_no_reply() {
    let served = served();
    let mut it = own(&served);
    let mut control = raw(&served);
    for _ in 0..10 {
        let at = session(&mut it);
        write(&mut it, &format!("{at}/argv"), "sh -c 'echo once; exec sleep 98751'");
        control.open(1, &format!("{at}/ctl"), 1);
        // A line without its end waits for the rest; its write has a reply.
        control.send(1, &Request::Write { fid: 1, offset: 0, content: b"exec /bin" });
        assert_eq!(control.reply(), WRITTEN);
        assert_eq!(flush(&mut control), None);
        // While it is carried out.
        control.send(1, &Request::Write { fid: 1, offset: 0, content: b"/sh\n" });
        let _may_come = flush(&mut control);
        until(|| (read(&mut it, &format!("{at}/ctl")) != "-1").then_some(()));
        // A wipe takes its time, and goes on without the client that has asked.
        control.send(1, &Request::Write { fid: 1, offset: 0, content: b"wipe\n" });
        let mut output = own(&served);
        let _may_come = flush(&mut control);
        control.ask(&Request::Clunk { fid: 1 });
        until(|| it.stat(&at).is_err().then_some(()));
        assert!(output.read_while(&format!("{at}/stdout"), |_| true).is_err());
    }
}

#[test]
fn root_a_fork_bomb_within_its_limit_ends_with_a_wipe() {
    if !able("root_a_fork_bomb_within_its_limit_ends_with_a_wipe") {
        return;
    }
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let limited = it.write(&format!("{at}/ctl"), b"limit pids 200\n");
    if let Err(ClientError::Refused(why)) = limited {
        // No controller is delegated to the tests, and without a limit there is no bomb.
        assert_eq!(why, "Operation not permitted");
        return;
    }
    let mark = format!("bomb98752.{}", std::process::id());
    // A shell ends when it cannot fork, this does not.
    let text = "while (1) { fork; select(undef, undef, undef, 0.01); }";
    write(&mut it, &format!("{at}/argv"), &format!("perl -e '{text}' {mark}"));
    write(&mut it, &format!("{at}/ctl"), "limit spool drop\nexec /usr/bin/perl\n");
    until(|| (count(&mark) >= 150).then_some(()));
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    assert_eq!(count(&mark), 0);
    // The service goes on.
    let next = script(&mut it, "echo next");
    assert_eq!(read(&mut it, &format!("{next}/stdout")), "next\n");
}

/// How many processes have this word as their command line's last.
fn count(mark: &str) -> usize {
    let found = Command::new("pgrep").args(["-fc", &format!("{mark}$")]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().trim().parse().unwrap()
}
