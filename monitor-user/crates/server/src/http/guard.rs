//! Checks of an HTTP request before anything is looked up for it.
//!
//! In: its method and headers, the listener. Out: the access level of its sender, or a refusal.
//! DNS rebinding (another site resolves its own name to this address) is detected by the name in
//! `Host` and refused. No response allows cross-origin reads (no CORS headers).

use super::listen::{AccessLevel, Listen};
use super::token::AccessToken;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::{Method, StatusCode, Uri};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The status and the message of a refused request.
pub type HttpRefusal = (StatusCode, &'static str);

/// Refuses other methods than GET and HEAD, and requests with a body.
pub fn check_method(method: &Method, headers: &HeaderMap) -> Result<(), HttpRefusal> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported"));
    }
    check_no_body(headers)
}

/// Refuses a request with a body.
pub fn check_no_body(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let length = headers.get(CONTENT_LENGTH).is_some_and(|it| it != "0");
    if length || headers.contains_key(TRANSFER_ENCODING) {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request must not have a body"));
    }
    Ok(())
}

/// Refuses a `Host` that does not name this listener.
pub fn check_host(listen: &Listen, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpRefusal> {
    const WRONG: HttpRefusal = (
        StatusCode::MISDIRECTED_REQUEST,
        "the name in Host is not a name of this listener: use its address, or add it to http.hosts",
    );
    let mut named = headers.get_all(HOST).iter();
    let named = match (uri.authority(), named.next(), named.next()) {
        (Some(authority), ..) => authority.as_str(),
        (None, Some(host), None) => host.to_str().map_err(|_| WRONG)?,
        _ => return Err((StatusCode::BAD_REQUEST, "a request needs exactly one Host header")),
    };
    let host = host_name(named).ok_or((StatusCode::BAD_REQUEST, "Host is malformed"))?;
    let is_ours = match host {
        // DNS rebinding needs a name: an address in `Host` was typed as an address.
        HostName::Address => true,
        HostName::Name(name) => {
            let is_listed = listen.hosts.iter().any(|it| it.eq_ignore_ascii_case(name));
            name.eq_ignore_ascii_case("localhost") || is_listed
        }
    };
    if is_ours { Ok(()) } else { Err(WRONG) }
}

/// What `Host` names.
#[derive(Debug, PartialEq, Eq)]
enum HostName<'a> {
    Address,
    Name(&'a str),
}

/// Parses `Host` without its port (RFC 9110 section 7.2, RFC 3986 section 3.2): brackets belong to
/// IPv6 addresses alone, which have them, and a port has at most 16 bits.
fn host_name(named: &str) -> Option<HostName<'_>> {
    let (host, port) = match named.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, port)) => {
            let _address = address.parse::<Ipv6Addr>().ok()?;
            (HostName::Address, port)
        }
        None => {
            let (name, port) = named.split_at(named.find(':').unwrap_or(named.len()));
            if name.contains(['[', ']', '@']) {
                return None;
            }
            let is_address = name.parse::<Ipv4Addr>().is_ok();
            (if is_address { HostName::Address } else { HostName::Name(name) }, port)
        }
    };
    let is_port = |port: &str| {
        port.is_empty() || port.bytes().all(|it| it.is_ascii_digit()) && port.parse::<u16>().is_ok()
    };
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

/// The access level of the sender; `is_authenticated` means that it has a client certificate.
pub fn access_level(
    (listen, access_token): (&Listen, &AccessToken),
    headers: &HeaderMap,
    is_authenticated: bool,
) -> Result<AccessLevel, HttpRefusal> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        let access =
            if is_authenticated { Some(AccessLevel::Full) } else { listen.anonymous_access() };
        let why =
            "send the token: Authorization: Bearer …; `monitor status` prints the path of its file";
        return access.ok_or((StatusCode::UNAUTHORIZED, why));
    };
    let header = header.to_str().unwrap_or_default();
    let (scheme, token) = header.split_once(' ').unwrap_or_default();
    // A wrong token is refused, not answered with less access.
    match scheme.eq_ignore_ascii_case("bearer") && access_token.matches(token.trim()) {
        true => Ok(AccessLevel::Full),
        false => Err((StatusCode::UNAUTHORIZED, "the token is wrong")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let _ = headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], want: Option<u16>) {
        let listen = Listen { hosts: vec!["node7.example.org".into()], ..Listen::default() };
        let got = check_host(&listen, &Uri::from_static("/"), &headers(pairs));
        assert_eq!(got.err().map(|it| it.0.as_u16()), want);
    }

    #[test]
    fn a_host_is_an_address_or_a_configured_name() {
        let good =
            ["127.0.0.1:9464", "[::1]:9464", "localhost", "LOCALHOST:1", "node7.example.org"];
        good.iter().for_each(|it| check(&[("host", it)], None));
        let bad = ["evil.example", "127.0.0.1.evil.example:9464", "localhost.evil", ""];
        bad.iter().for_each(|it| check(&[("host", it)], Some(421)));
        let malformed = [
            "[127.0.0.1]:9464",
            "[localhost]",
            "[[::1]]:1",
            "[::1",
            "::1",
            "::1]",
            "[node7.example.org]",
            "[::1]x",
            "localhost:65536",
            "127.0.0.1:99999",
            "localhost:+1",
            "localhost:1:1",
            "[::1]:-1",
            "a@localhost",
            "[fe80::1%eth0]",
        ];
        malformed.iter().for_each(|it| check(&[("host", it)], Some(400)));
        ["localhost:", "[::1]", "localhost:65535"]
            .iter()
            .for_each(|it| check(&[("host", it)], None));
        check(&[], Some(400));
        check(&[("host", "localhost"), ("host", "localhost")], Some(400));
    }

    #[test]
    fn other_methods_and_bodies_are_refused() {
        let status = |method, pairs: &[(&'static str, &str)]| {
            check_method(&method, &headers(pairs)).err().map(|it| it.0.as_u16())
        };
        assert_eq!(status(Method::GET, &[]), None);
        assert_eq!(status(Method::POST, &[]), Some(405));
        assert_eq!(status(Method::GET, &[("content-length", "5")]), Some(413));
        assert_eq!(status(Method::GET, &[("transfer-encoding", "chunked")]), Some(413));
    }

    #[test]
    fn the_token_gives_full_access_and_a_wrong_one_none() {
        let token = AccessToken::load(None, None).expect("a token");
        let bearer = format!("Bearer {}", token.text());
        let (near, mut far) = (Listen::default(), Listen::default());
        far.address = Some("10.0.0.1:1".parse().expect("an address"));
        let see = |listen, pairs: &[(&'static str, &str)], is_authenticated| {
            access_level((listen, &token), &headers(pairs), is_authenticated)
                .map_err(|it| it.0.as_u16())
        };
        assert_eq!(see(&near, &[("authorization", &bearer)], false), Ok(AccessLevel::Full));
        assert_eq!(see(&near, &[("authorization", "Bearer x")], true), Err(401));
        assert_eq!(see(&near, &[], false), Ok(AccessLevel::Open));
        assert_eq!(see(&far, &[], false), Err(401));
        assert_eq!(see(&far, &[], true), Ok(AccessLevel::Full));
    }
}
