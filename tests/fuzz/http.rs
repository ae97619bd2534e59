//! HTTP: requests on a connection of the listener, without TLS and without a daemon behind it.

use super::input::input;
use super::trial::{Border, MAX_MEMORY, run};
use monitor_model::{Instant, Ns};
use monitor_recording::Span;
use monitor_server::http::{HttpListener, Listen, PlaybackClock, serve_stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::time::timeout;

const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b":",
    b"?",
    b"&",
    b"=",
    b"%FF",
    b"%C3%A9",
    b"%00",
    b"%",
    b"\0",
    b"\xff",
    b"GET ",
    b"POST ",
    b"HEAD ",
    b" HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Host: [::1]:65536\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Authorization: Bearer \r\n",
    b"filter=",
    b"cpu%3E10%20and%20",
    b"not%20",
    b"(",
    b")",
    b"comm~",
    b"%22",
    b"pid=",
    b"to=",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n",
];
const PATHS: &[&str] = &[
    "/",
    "/metrics",
    "/feed",
    "/fits?filter=cpu%3E10%20and%20comm~a",
    "/process?pid=7",
    "/history?pid=7&start_ns=70000000",
    "/latency?of=block&pid=7",
    "/top.js",
];
/// Time for a connection whose client has sent everything.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Bytes between the client and the listener.
const BUFFER: usize = 64 << 10;

fn samples() -> Vec<Vec<u8>> {
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    let of = |method: &str, path: &str, host: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n").into_bytes()
    };
    let mut samples: Vec<Vec<u8>> =
        PATHS.iter().map(|path| of("GET", path, "localhost:9464")).collect();
    samples.push(of("POST", "/seek?to=1000000000&speed=2", "[::1]:9464"));
    samples.push(of("HEAD", "/metrics", "127.0.0.1"));
    let twice = [samples[0].clone(), samples[1].clone()].concat();
    samples.push(twice);
    samples
}

#[test]
fn any_bytes_on_a_connection_are_answered_or_end_it() {
    let folder = std::env::temp_dir().join(format!("monitor-fuzz-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (requests, mut arrivals) = tokio::sync::mpsc::channel(64);
    let at = |seconds: u64| Instant { unix: Ns(seconds * 1_000_000_000), ..Instant::default() };
    let span = Span { first: at(1), last: at(9), samples: 9 };
    let clock = Arc::new(PlaybackClock::new("absent".as_ref(), &span, (at(1).unix, 1.0)));
    let listen = Listen { address: Some("127.0.0.1:0".parse().unwrap()), ..Listen::default() };
    let listener = HttpListener::open(&listen, (Some(&folder), Some(clock)), requests);
    let shared = runtime.block_on(listener).unwrap().unwrap().shared();
    // Nothing is answered: each request to the daemon fails.
    let _daemon = runtime.spawn(async move { while arrivals.recv().await.is_some() {} });
    let samples = samples();
    let border = Border { name: "HTTP", max_memory: MAX_MEMORY };
    let mut n_good = 0;
    run(
        border,
        |random| input(random, &samples, WORDS),
        |bytes| {
            let answer = runtime.block_on(async {
                let (client, server) = duplex(BUFFER);
                let (mut reader, mut writer) = tokio::io::split(client);
                let mut answer = Vec::new();
                let send = async {
                    // The listener may have closed the connection.
                    let _either = writer.write_all(bytes).await;
                    let _either = writer.shutdown().await;
                };
                let receive = async { _ = reader.read_to_end(&mut answer).await };
                let serve = serve_stream(Arc::clone(&shared), server);
                let all = async { tokio::join!(send, receive, serve) };
                timeout(MAX_TIME, all).await.expect("a connection ends with its client");
                answer
            });
            n_good += usize::from(answer.starts_with(b"HTTP/1.1 200"));
        },
    );
    assert!(n_good > 0, "no request was answered");
    std::fs::remove_dir_all(folder).unwrap();
}
