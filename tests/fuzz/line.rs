//! What holds for every line of the request language.
//!
//! In: a line. Out: nothing; it panics where a promise does not hold: a line is read or refused at
//! a place in it, what was read is the same when it is printed and read again, and an answer to
//! what was refused is a reply.

use monitor_omis::{Dialect, Fault, Node, caret, parse};

/// Checks all of it.
pub fn check(line: &[u8]) {
    for dialect in [Dialect::Extended, Dialect::Strict] {
        match parse::request(line, dialect) {
            Ok(request) => {
                let printed = request.to_string();
                let again = parse::request(printed.as_bytes(), Dialect::Extended);
                assert_eq!(again.as_ref(), Ok(&request), "{printed}");
            }
            Err(fault) => refused(line, &fault),
        }
    }
    match parse::reply(line) {
        Ok(reply) => {
            let printed = reply.to_string();
            assert_eq!(parse::reply(printed.as_bytes()).as_ref(), Ok(&reply), "{printed}");
        }
        Err(fault) => refused(line, &fault),
    }
}

fn refused(line: &[u8], fault: &Fault) {
    assert!(fault.at <= line.len(), "{}", line.escape_ascii());
    let reply = fault.reply(Node(0), Dialect::Extended);
    assert_eq!(parse::reply(reply.to_string().as_bytes()), Ok(reply));
    assert_eq!(caret::render(line, fault).matches('\n').count(), 1);
}
