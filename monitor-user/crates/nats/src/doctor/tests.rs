//! Each link that is broken, on a real server, and what is said of it.

use super::finding::{Finding, FindingState};
use super::{examine, greeting};
use crate::streams::Streams;
use crate::suite::{TestSite, has_server};
use crate::{NatsConnection, NatsOptions, Role};
use rcgen::{CertificateParams, Issuer, KeyPair};
use std::io::Write as _;
use std::net::TcpListener;
use time::{Duration, OffsetDateTime};
use tokio::runtime::Runtime;

fn found(options: &NatsOptions) -> Vec<Finding> {
    found_as(options, Role::Node)
}

fn found_as(options: &NatsOptions, role: Role) -> Vec<Finding> {
    Runtime::new().unwrap().block_on(examine(options, role))
}

/// The finding of a check.
#[track_caller]
fn finding<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|it| it.check == check);
    found.unwrap_or_else(|| panic!("no check {check}: {findings:#?}"))
}

#[track_caller]
fn fails(findings: &[Finding], check: &str, found: &str) {
    let finding = finding(findings, check);
    assert_eq!(finding.state, FindingState::Failed, "{finding:?}");
    assert!(finding.found.contains(found) && finding.fix.is_some(), "{finding:?}");
}

#[test]
fn a_whole_cluster_has_no_findings_and_another_one_on_its_server_has() {
    if !has_server() {
        return;
    }
    let mut site = TestSite::small();
    site.start();
    // No node has made the streams yet.
    fails(&found(&site.options("n4")), "stream", "no MONCMD");
    Runtime::new().unwrap().block_on(async { drop(site.bus("n1").await) });
    let findings = found(&site.options("n4"));
    assert!(findings.iter().all(|it| it.state == FindingState::Ok), "{findings:#?}");
    for check in
        ["reachable", "version", "jetstream", "certificate", "user", "denials", "stream", "clock"]
    {
        finding(&findings, check);
    }
    assert!(finding(&findings, "certificate").found.starts_with("valid until 20"), "{findings:?}");

    let gateway = found_as(&site.options("web"), Role::Gateway);
    assert_eq!(finding(&gateway, "gateway").state, FindingState::Ok, "{gateway:#?}");
    let node = found_as(&site.options("n4"), Role::Gateway);
    fails(&node, "gateway", "may not read mon.s.*");
    fails(&node, "rights", "may not publish on mon.want.n4");

    let options = site.options("n4");
    let streams = Streams { cluster: "other".to_owned(), ..options.streams.clone() };
    fails(&found(&NatsOptions { streams, ..options }), "stream", "the cluster \"monitor\"");

    let options = site.options("n4");
    let user = site.connection("admin").user;
    let connection = NatsConnection { user, ..options.connection };
    let findings = found(&NatsOptions { connection, streams: options.streams });
    fails(&findings, "denials", "as no node should");
    let options = site.options("n4");
    let connection = NatsConnection { user: None, ..options.connection };
    fails(&found(&NatsOptions { connection, streams: options.streams }), "user", "authorization");
}

#[test]
fn a_server_without_jetstream_and_an_old_certificate_are_named() {
    if !has_server() {
        return;
    }
    let mut site = TestSite::small();
    let config = site.server_file("nats-server.conf");
    let text = std::fs::read_to_string(&config).unwrap();
    let (before, after) = text.split_once("jetstream {").unwrap();
    let without = format!("{before}{}", after.split_once('}').unwrap().1);
    std::fs::write(&config, without).unwrap();
    let accounts = site.server_file("accounts.conf");
    let text = std::fs::read_to_string(&accounts).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("jetstream"));
    std::fs::write(&accounts, lines.collect::<Vec<_>>().join("\n")).unwrap();
    expire(&site);
    site.start();
    let findings = found(&site.options("n4"));
    fails(&findings, "jetstream", "off");
    let yesterday = (OffsetDateTime::now_utc() - Duration::days(1)).date();
    fails(&findings, "certificate", &format!("expired on {yesterday}"));
}

/// Replaces the certificate of the server by one that ended yesterday.
fn expire(site: &TestSite) {
    let read = |name: &str| std::fs::read_to_string(site.folder.join(name)).unwrap();
    let key = KeyPair::from_pem(&read("ca/ca.key")).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = rcgen::DistinguishedName::new();
    let name = "cluster monitor authority";
    authority.distinguished_name.push(rcgen::DnType::CommonName, name);
    let mut params =
        CertificateParams::new(vec![site.servers[0].address.ip().to_string()]).unwrap();
    params.not_before = OffsetDateTime::now_utc() - Duration::days(9);
    params.not_after = OffsetDateTime::now_utc() - Duration::days(1);
    let own = std::fs::read_to_string(site.server_file("server.key")).unwrap();
    let own = KeyPair::from_pem(&own).unwrap();
    let signed = params.signed_by(&own, &Issuer::new(authority, key)).unwrap();
    std::fs::write(site.server_file("server.crt"), signed.pem()).unwrap();
}

/// What is said of a server that sends this line first.
fn greeted(line: &'static str) -> Vec<Finding> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(line.as_bytes()).unwrap();
    });
    let connection =
        NatsConnection { servers: vec![], user: None, ca: None, node: "n1".to_owned() };
    let findings = Runtime::new().unwrap().block_on(greeting::examine(&url, &connection));
    server.join().unwrap();
    findings
}

#[test]
fn what_answers_may_be_old_or_no_server() {
    let old = greeted("INFO {\"version\":\"2.8.4\",\"jetstream\":true,\"auth_required\":true}\r\n");
    fails(&old, "version", "2.8.4 is older than 2.9.10");
    let open = greeted("INFO {\"version\":\"2.15.1\",\"jetstream\":true}\r\n");
    fails(&open, "access", "without a key");
    fails(&greeted("SSH-2.0-OpenSSH_9.2\r\n"), "reachable", "it is no nats-server");
    fails(&greeted("INFO {\"version\":7}\r\n"), "reachable", "it is no nats-server");
    fails(&greeted(""), "reachable", "unexpected end of file");
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let connection =
        NatsConnection { servers: vec![], user: None, ca: None, node: "n1".to_owned() };
    // Port 9 of an address of loopback that nothing listens on.
    let url = "nats://127.255.255.254:9";
    let findings = Runtime::new().unwrap().block_on(greeting::examine(url, &connection));
    assert_eq!(findings.len(), 1);
    fails(&findings, "reachable", "refused");
}
