//! JSON: calls of clients, and samples that a client reads.

use super::input::input;
use super::trial::{Border, MAX_MEMORY, run};
use super::{files, lines};
use monitor_protocol::call::Call;
use monitor_protocol::decode;

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"\"id\":",
    b"\"params\":",
    b"\"fields\":",
    b"\"targets\":",
    b"\"every_ns\":",
    b"\"part\":\"all\"",
    b"\xff",
    b"{\"pid\":1}",
    b"\"jsonrpc\":\"2.0\",",
    b"\"groups\":[",
    b"\"processes\":[",
    b"[[[[[[[[[[",
];
/// Calls with parameters that the golden files do not have.
const CALLS: &[&str] = &[
    r#"monitor {"part":"all","every_ns":200000000,"threads":true,"histograms":true,"top":3}"#,
    r#"monitor {"fields":["pid","cpu_percent"],"where":"cpu>1 and comm~a","sort":"cpu_percent"}"#,
    r#"monitor {"targets":[{"pid":7,"start_time_ns":1}],"capabilities":["block"],"every_ns":1}"#,
    r#"monitor {"part":"proc","every_ns":1000000000,"lease_ns":1000000000,"id":"m"}"#,
];

#[test]
fn any_call_is_read_or_refused_and_read_again() {
    let golden = lines("golden/socket", "-> ").into_iter();
    let calls = golden.chain(CALLS.iter().map(|it| it.as_bytes().to_vec()));
    let whole = |call: Vec<u8>| {
        let text = String::from_utf8(call).unwrap();
        let (method, params) = text.split_once(' ').unwrap_or((&text, "{}"));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#).into_bytes()
    };
    let samples: Vec<Vec<u8>> = calls.map(whole).collect();
    let n_good = samples.iter().filter(|it| Call::from_line(it).is_ok()).count();
    assert!(n_good > 10, "{n_good}");
    let border = Border { name: "calls", max_memory: MAX_MEMORY };
    run(
        border,
        |random| input(random, &samples, WORDS),
        |line| {
            if let Ok((tag, call)) = Call::from_line(line) {
                let again = Call::from_line(&call.to_line(tag.as_ref()));
                assert!(again.is_ok(), "{again:?}");
            }
        },
    );
}

#[test]
fn any_sample_is_decoded_or_refused() {
    let texts = files("golden").into_iter().chain(files("golden/recording"));
    let json = texts.filter(|(path, _)| path.extension().is_some_and(|it| it == "jsonl"));
    let lines = json.flat_map(|(_, text)| {
        text.split(|it| *it == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    let samples: Vec<Vec<u8>> = lines.filter(|it| it.starts_with(b"{")).collect();
    assert!(samples.len() > 3, "{}", samples.len());
    let border = Border { name: "samples", max_memory: MAX_MEMORY };
    run(
        border,
        |random| input(random, &samples, WORDS),
        |line| {
            if let Ok(text) = std::str::from_utf8(line) {
                let _either = decode::rates(text);
            }
        },
    );
}
