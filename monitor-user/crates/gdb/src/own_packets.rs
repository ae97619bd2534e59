//! Packets that `gdbstub` does not know and debugging needs.
//!
//! In: the data of a packet. Out: the data of its reply, or nothing if `gdbstub` answers it.
//! `?`: no signal has stopped the process. `QPassSignals`: signals that do not stop the program.
//! `qXfer:siginfo`: the sender of a signal, and the address of a fault. `qXfer:threads`: their
//! names. `qSymbol`, `qGetTLSAddr`: thread-local variables. `Z0` with conditions, which are
//! evaluated here.

use crate::breakpoints::Condition;
use crate::debuggee::{Debuggee, ThreadName};
use crate::packet::{from_hex, hex_number};
use crate::registers::FS_BASE;
use crate::session::CallError;
use crate::signals;
use crate::thread_locals::Variable;
use gdbstub::common::Signal;
use monitor_omis::Status;
use std::fmt::Write as _;

/// What is added to the features that `gdbstub` reports.
const FEATURES: &str =
    ";QPassSignals+;qXfer:siginfo:read+;qXfer:threads:read+;ConditionalBreakpoints+";
/// Stop replies that gdb understands only if it says so.
const EXEC_EVENTS: &str = "exec-events+";

/// Error numbers of the system that gdb knows (errno(3)).
const ESRCH: &str = "E03";
const EIO: &str = "E05";
const EINVAL: &str = "E16";

/// What is added to the features that `gdbstub` reports to a gdb with these.
pub fn features(debuggee: &mut Debuggee, supported: &[u8]) -> String {
    let supported = String::from_utf8_lossy(supported);
    let has = |name: &str| supported.split([':', ';']).any(|it| it == name);
    (debuggee.reports_exec, debuggee.names_processes) = (has(EXEC_EVENTS), has("multiprocess+"));
    let exec = if debuggee.reports_exec { format!(";{EXEC_EVENTS}") } else { String::new() };
    format!("{FEATURES}{exec}")
}

/// Answers a packet; `None` if `gdbstub` is to answer it.
///
/// # Errors
/// If the session is lost.
pub fn answer(debuggee: &mut Debuggee, data: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
    let Ok(text) = std::str::from_utf8(data) else { return Ok(None) };
    note_current(debuggee, text);
    if text == "?" {
        return Ok(Some(attached(debuggee)));
    }
    if let Some(signals) = text.strip_prefix("QPassSignals:") {
        let signals = signals.split(';').filter_map(hex_number);
        let signals = signals.filter_map(|it| signals::from_gdb(Signal(u8::try_from(it).ok()?)));
        debuggee.pass_signals(signals.collect());
        return Ok(Some(b"OK".to_vec()));
    }
    if let Some(range) = text.strip_prefix("qXfer:siginfo:read::") {
        let thread = debuggee.session.thread(debuggee.current);
        return transfer(debuggee.bytes(&format!("read_signal_info({thread})")), range).map(Some);
    }
    if let Some(range) = text.strip_prefix("qXfer:threads:read::") {
        let pid = debuggee.session.pid();
        return transfer(debuggee.threads().map(|it| threads_xml(pid, &it)), range).map(Some);
    }
    if let Some(symbol) = text.strip_prefix("qSymbol:") {
        return Ok(Some(debuggee.thread_locals.symbol(symbol)));
    }
    if let Some(place) = text.strip_prefix("qGetTLSAddr:") {
        return thread_local(debuggee, place).map(Some);
    }
    // x86 watches no reads alone: gdb then asks for reads and writes.
    if text.starts_with("Z3,") {
        return Ok(Some(Vec::new()));
    }
    match text.strip_prefix("Z0,").and_then(|it| it.split_once(';')) {
        Some((place, more)) => insert(debuggee, place, more).map(Some),
        None => Ok(None),
    }
}

/// Why the process is stopped when gdb attaches: without a signal.
fn attached(debuggee: &Debuggee) -> Vec<u8> {
    let (pid, tid) = (debuggee.session.pid(), debuggee.current);
    let process = if debuggee.names_processes { format!("p{pid:x}.") } else { String::new() };
    format!("T00thread:{process}{tid:x};").into_bytes()
}

/// `Hgp12.34`: the thread that gdb asks about next.
fn note_current(debuggee: &mut Debuggee, text: &str) {
    let named = text.strip_prefix("Hg").and_then(|it| it.rsplit('.').next());
    let named = named.map(|it| it.trim_start_matches('p')).and_then(hex_number);
    if let Some(tid) = named.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0) {
        debuggee.current = tid;
    }
}

/// The address of a thread-local variable.
fn thread_local(debuggee: &mut Debuggee, place: &str) -> Result<Vec<u8>, CallError> {
    let Some(variable) = Variable::parse(place) else { return Ok(EINVAL.into()) };
    let pthread = match debuggee.images(variable.tid) {
        Ok(images) => images.value(FS_BASE).unwrap_or(0),
        Err(CallError::Refused { .. }) => return Ok(ESRCH.into()),
        Err(lost) => return Err(lost),
    };
    let mut locals = std::mem::take(&mut debuggee.thread_locals);
    let mut read = |at, bytes| debuggee.read_memory(at, bytes);
    let address = locals.address(pthread, variable, &mut read);
    debuggee.thread_locals = locals;
    address
}

/// A part of an object that gdb reads bit by bit: `m` and the part, or `l` and the last one.
fn transfer(object: Result<Vec<u8>, CallError>, range: &str) -> Result<Vec<u8>, CallError> {
    let range = range.split_once(',').and_then(|(offset, length)| {
        let number = |text| hex_number(text).and_then(|it| usize::try_from(it).ok());
        Some((number(offset)?, number(length)?))
    });
    let Some((offset, length)) = range else { return Ok(EINVAL.into()) };
    match object {
        Ok(whole) => {
            let rest = whole.get(offset..).unwrap_or_default();
            let part = &rest[..length.min(rest.len())];
            let more = if part.len() < rest.len() { b'm' } else { b'l' };
            Ok([&[more], part].concat())
        }
        Err(CallError::Refused { .. }) => Ok(EIO.into()),
        Err(lost) => Err(lost),
    }
}

/// The threads with their names, which `gdbstub` does not report.
fn threads_xml(pid: u32, threads: &[ThreadName]) -> Vec<u8> {
    let mut xml = String::from("<?xml version=\"1.0\"?><threads>");
    for thread in threads {
        let name = String::from_utf8_lossy(&thread.name);
        let is_plain = |it: &char| !it.is_control() && !"<>&\"'".contains(*it);
        let name: String = name.chars().map(|it| if is_plain(&it) { it } else { '?' }).collect();
        // Writing to a `String` cannot fail.
        let _ = write!(xml, "<thread id=\"p{pid:x}.{:x}\" name=\"{name}\"/>", thread.tid);
    }
    xml.push_str("</threads>");
    xml.into_bytes()
}

/// `ADDRESS,KIND;X LENGTH,BYTECODE…`; commands that the target would run are left to gdb.
fn insert(debuggee: &mut Debuggee, place: &str, more: &str) -> Result<Vec<u8>, CallError> {
    let address = place.split(',').next().and_then(hex_number);
    let Some((address, conditions)) = address.zip(conditions(more)) else {
        return Ok(EINVAL.into());
    };
    match debuggee.breakpoints.insert(&debuggee.session, address, conditions) {
        Ok(()) => Ok(b"OK".to_vec()),
        Err(CallError::Refused { status: Status::FAULT, .. }) => Ok(b"E0e".to_vec()),
        Err(CallError::Refused { .. }) => Ok(EIO.into()),
        Err(lost) => Err(lost),
    }
}

/// Each is `X`, its length in bytes, and its digits.
fn conditions(text: &str) -> Option<Vec<Condition>> {
    let text = text.split(";cmds:").next().unwrap_or(text);
    let mut conditions = Vec::new();
    for one in text.split(['X', ';']).filter(|it| !it.is_empty()) {
        let (length, digits) = one.split_once(',')?;
        let code = from_hex(digits)?;
        if hex_number(length)? != u64::try_from(code.len()).ok()? {
            return None;
        }
        conditions.push(Condition(code));
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_are_text_of_xml() {
        let threads = [ThreadName { tid: 16, name: b"a<b\xff".to_vec() }];
        let xml = String::from_utf8(threads_xml(7, &threads)).unwrap();
        assert_eq!(
            xml,
            "<?xml version=\"1.0\"?><threads><thread id=\"p7.10\" name=\"a?b\u{fffd}\"/></threads>"
        );
    }

    #[test]
    fn an_object_is_read_in_parts() {
        let read = |range| transfer(Ok(b"abc".to_vec()), range).unwrap();
        assert_eq!(
            (read("0,2"), read("2,2"), read("3,2")),
            (b"mab".to_vec(), b"lc".to_vec(), b"l".to_vec())
        );
        assert_eq!(read("x,2"), b"E16");
    }

    #[test]
    fn conditions_are_read_one_by_one() {
        let one = |code: &[u8]| Condition(code.to_vec());
        assert_eq!(conditions("X3,220127"), Some(vec![one(&[0x22, 1, 0x27])]));
        let two = conditions("X3,220127X2,2227;cmds:0,X1,27");
        assert_eq!(two, Some(vec![one(&[0x22, 1, 0x27]), one(&[0x22, 0x27])]));
        assert_eq!(conditions("X2,220127"), None);
        assert_eq!(conditions(""), Some(Vec::new()));
    }
}
