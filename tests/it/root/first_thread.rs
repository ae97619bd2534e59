//! Watched calls of a process that continues without its first thread, which its probes belonged
//! to.

use super::harmless::counted;
use super::privilege::granted;
use super::workload::Guarded;
use crate::deadline;
use crate::probe::when::{wait_until_watching, watch};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Command;

/// Calls `labs` as often as each line says, in its second thread; `exit` ends the first one.
const SCRIPT: &str = "import ctypes, os, sys, threading\n\
                      l = ctypes.CDLL(None)\n\
                      over = threading.Event()\n\
                      def work():\n  \
                        print('ready', flush=True)\n  \
                        for line in sys.stdin:\n    \
                          if line == 'exit\\n': over.set(); continue\n    \
                          for _ in range(int(line)): l.labs(-7)\n    \
                          print('done', flush=True)\n  \
                        os._exit(0)\n\
                      threading.Thread(target=work).start()\n\
                      over.wait()\n\
                      l.syscall(60, 0)\n";

#[test]
fn root_calls_are_counted_after_the_first_thread_has_ended() {
    if !granted("root_calls_are_counted_after_the_first_thread_has_ended") {
        return;
    }
    let mut target = Guarded::run(Command::new("python3").args(["-c", SCRIPT]));
    assert_eq!(target.line(), "ready");
    let mut watching = watch(&target, &["call libc:labs", "print,count"]);
    wait_until_watching(&mut watching);
    let lines = BufReader::new(watching.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (sender, printed) = std::sync::mpsc::channel();
    let _reader =
        std::thread::spawn(move || lines.map(|line| sender.send(line)).all(|it| it.is_ok()));
    let call = |target: &mut Guarded, n: u64| {
        target.send_line(&n.to_string());
        assert_eq!(target.line(), "done");
    };
    let calls = |printed: &mut dyn Iterator<Item = String>, n: usize| {
        assert!(printed.take(n).all(|line| line.contains("libc:labs(")));
    };
    call(&mut target, 3);
    calls(&mut printed.iter(), 3);
    target.send_line("exit");
    let stat = format!("/proc/{}/stat", target.pid().0);
    deadline::until(|| std::fs::read_to_string(&stat).unwrap().contains(") Z ").then_some(()));
    // Until it has probes again, calls are not seen.
    let first = deadline::until(|| {
        call(&mut target, 1);
        printed.try_recv().ok()
    });
    call(&mut target, 23);
    drop(target.0.stdin.take());
    assert_eq!(target.0.wait().unwrap().code(), Some(0));
    let rest: Vec<String> = std::iter::once(first).chain(printed).collect();
    let n_calls = rest.iter().filter(|line| line.contains("libc:labs(")).count();
    assert!(n_calls >= 24, "{rest:?}");
    assert_eq!(counted(rest.last().unwrap(), "call libc:labs"), 3 + n_calls as u64);
    let mut notes = String::new();
    let _n = watching.0.stderr.take().unwrap().read_to_string(&mut notes).unwrap();
    let pid = target.pid().0;
    assert!(notes.contains(&format!("calls of process {pid} were not seen for ")), "{notes}");
}
