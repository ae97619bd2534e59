//! What the listener refuses: other host names, wrong tokens, other methods, too many connections,
//! and a configuration that would be open to other machines.

use super::get::{Answer, Web};
use crate::deadline::until;
use crate::served::{Folder, Served, monitor, write};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

#[test]
fn other_host_names_and_methods_are_refused() {
    let web = Web::with("hosts = [\"node7.example\"]\n");
    let status = |request: &str| web.send(request).status;
    let close = "Connection: close\r\n\r\n";
    assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n{close}")), 421);
    assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\nHost: node7.example:1\r\n{close}")), 200);
    assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\n{close}")), 400);
    assert_eq!(status(&format!("POST /metrics HTTP/1.1\r\nHost: localhost\r\n{close}")), 405);
    assert_eq!(status("BREW / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405);
    assert_eq!(web.get("/nothing", &[]).status, 404);
    let refused = &web.served.status()["http"]["refused"];
    assert_eq!((&refused["Misdirected Request"], &refused["Not Found"]), (&1.into(), &1.into()));
}

#[test]
fn the_headers_forbid_other_sites() {
    let web = Web::with("");
    let answer = web.get("/metrics", &["Origin: http://evil.example"]);
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
    assert!(answer.head.contains("content-security-policy: default-src 'none'"));
    assert!(answer.head.contains("x-content-type-options: nosniff"));
}

#[test]
fn without_the_token_access_is_limited_and_a_wrong_one_is_refused() {
    let web = Web::reading("", "procfs");
    let io = "monitor_group_read_bytes_total{";
    let open = web.get("/metrics", &[]);
    assert!(open.text().contains("monitor_group_cpu_seconds_total{") && !open.text().contains(io));
    let all = web.get("/metrics", &[&web.token()]);
    assert!(all.text().contains(io), "{}", all.text());
    assert_eq!(web.get("/metrics", &["Authorization: Bearer 0123456789abcdef"]).status, 401);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(web.token_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_policy_applies_to_the_listener() {
    let web = Web::with("[policy]\nobserve-own = [0]\n");
    assert_eq!(web.get("/metrics", &[]).status, 503);
    assert_eq!(web.get("/metrics", &[&web.token()]).status, 200);
}

/// Starts a daemon that must refuse to start, and returns its error.
fn refused(config: &str) -> String {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(&path, config);
    let mut command = monitor();
    command.args(["serve", "--backend", "test", "--socket"]).arg(folder.join("run/socket"));
    let output = command.arg("--config").arg(path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn beyond_loopback_without_token_or_tls_the_daemon_does_not_start() {
    let printed = refused("[http]\nlisten = \"0.0.0.0:0\"\n");
    assert!(
        printed.contains("http.listen 0.0.0.0:0 can be reached from other machines"),
        "{printed}"
    );
}

#[test]
fn a_port_in_use_is_an_error() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let printed = refused(&format!("[http]\nlisten = \"{address}\"\n"));
    let want = format!("cannot listen on {address}: another program uses it; choose another port");
    assert!(printed.contains(&want), "{printed}");
}

#[test]
fn beyond_loopback_with_a_token_nothing_is_shown_without_it() {
    let folder = Folder::new();
    let token = folder.join("token");
    let config = format!("[http]\nlisten = \"0.0.0.0:0\"\ntoken = {token:?}\n");
    let served = Served::with(&config);
    let address = served.status()["http"]["address"].as_str().unwrap().to_owned();
    let port = address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let get = |header: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        stream.write_all(format!("{head}{header}\r\n").as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Answer::parse(&all).status
    };
    let token = std::fs::read_to_string(token).unwrap();
    assert_eq!(get(""), 401);
    assert_eq!(get(&format!("Authorization: Bearer {}\r\n", token.trim())), 200);
}

#[test]
fn a_head_without_end_is_refused() {
    let web = Web::with("");
    let mut stream = web.connect();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    // The listener may close the connection before all is written.
    let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    assert!(all.is_empty() || Answer::parse(&all).status == 431);
    assert_eq!(web.get("/metrics", &[]).status, 200);
}

#[test]
fn a_head_has_at_most_32_kib() {
    let web = Web::with("");
    let status = |bytes: usize| {
        let start = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ";
        let filler = "x".repeat(bytes - start.len() - 4);
        let mut stream = web.connect();
        stream.write_all(format!("{start}{filler}\r\n\r\n").as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Answer::parse(&all).status
    };
    let limit = 32 << 10;
    assert_eq!((status(limit - 1), status(limit), status(limit + 1)), (200, 200, 431));
    assert_eq!(status(limit + 20_000), 431);
}

#[test]
fn thousands_of_silent_connections_keep_no_client_out() {
    let web = Web::with("connections = 64\n");
    let before = web.served.resident_bytes();
    let silent: Vec<_> = (0..10_000).map_while(|_| TcpStream::connect(web.address).ok()).collect();
    assert!(silent.len() > 500, "{}", silent.len());
    assert_eq!(web.get("/metrics", &[]).status, 200);
    let http = until(|| {
        let http = web.served.status()["http"].take();
        (http["refused"]["silent connection"].as_u64()? > 400).then_some(http)
    });
    assert!(http["connections"].as_u64().unwrap() <= 64, "{http}");
    assert!(web.served.resident_bytes() - before < 16 << 20);
}

#[test]
fn after_random_bytes_the_next_request_is_served() {
    let web = Web::with("");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let words = ["GET ", "/", " HTTP/1.1", "\r\n", "Host: ", "a", "\0", "\u{fffd}", ":", "%", "?"];
    for _ in 0..200 {
        let mut text = String::new();
        for _ in 0..30 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text += words[(state >> 33) as usize % words.len()];
        }
        let mut stream = web.connect();
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    }
    assert_eq!(web.get("/metrics", &[]).status, 200);
}
