//! What a request must be before anything is looked up for it.
//!
//! In: its method, its head, where it came in. Out: what its sender may see, or the refusal. A
//! page of another site that has its own name lead to this address is known by the name in `Host`
//! (DNS rebinding); it gets nothing, and nothing here allows it to read (no CORS).

use super::place::{Listen, Sight};
use super::secret::Secret;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::{Method, StatusCode, Uri};
use std::net::IpAddr;

/// Why a request gets nothing, for its sender.
pub type Refusal = (StatusCode, &'static str);

/// Refuses what only a program would send that wants something else.
pub fn proper(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD: nothing is changed here"));
    }
    bare(headers)
}

/// Refuses what brings a body.
pub fn bare(headers: &HeaderMap) -> Result<(), Refusal> {
    let length = headers.get(CONTENT_LENGTH).is_some_and(|it| it != "0");
    if length || headers.contains_key(TRANSFER_ENCODING) {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request here has no body"));
    }
    Ok(())
}

/// Refuses a name that is not this machine's.
pub fn host(listen: &Listen, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    const WRONG: Refusal = (
        StatusCode::MISDIRECTED_REQUEST,
        "the name in Host is not one of this listener: use its address, or add it to http.hosts",
    );
    let mut named = headers.get_all(HOST).iter();
    let named = match (uri.authority(), named.next(), named.next()) {
        (Some(authority), ..) => authority.as_str(),
        (None, Some(host), None) => host.to_str().map_err(|_| WRONG)?,
        _ => return Err((StatusCode::BAD_REQUEST, "a request names one Host")),
    };
    let bare = match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
        _ => named,
    };
    let address = bare.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let listed = || listen.hosts.iter().any(|it| it.eq_ignore_ascii_case(bare));
    // Nobody's name leads to a browser that asks for an address by its number.
    let known = address.is_ok() || bare.eq_ignore_ascii_case("localhost") || listed();
    if known { Ok(()) } else { Err(WRONG) }
}

/// What its sender may see: `known` is somebody with a certificate.
pub fn sight(
    (listen, secret): (&Listen, &Secret),
    headers: &HeaderMap,
    known: bool,
) -> Result<Sight, Refusal> {
    let Some(said) = headers.get(AUTHORIZATION) else {
        let stranger = if known { Some(Sight::Full) } else { listen.stranger() };
        let why = "say the token: Authorization: Bearer …; its file is told by monitor status";
        return stranger.ok_or((StatusCode::UNAUTHORIZED, why));
    };
    let said = said.to_str().unwrap_or_default();
    let (scheme, token) = said.split_once(' ').unwrap_or_default();
    // A wrong one is never answered with less than was asked for.
    match scheme.eq_ignore_ascii_case("bearer") && secret.is(token.trim()) {
        true => Ok(Sight::Full),
        false => Err((StatusCode::UNAUTHORIZED, "this is not the token")),
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
        let got = host(&listen, &Uri::from_static("/"), &headers(pairs));
        assert_eq!(got.err().map(|it| it.0.as_u16()), want);
    }

    #[test]
    fn a_host_is_an_address_or_a_name_of_ours() {
        let good =
            ["127.0.0.1:9464", "[::1]:9464", "localhost", "LOCALHOST:1", "node7.example.org"];
        good.iter().for_each(|it| check(&[("host", it)], None));
        let bad = ["evil.example", "127.0.0.1.evil.example:9464", "localhost.evil", ""];
        bad.iter().for_each(|it| check(&[("host", it)], Some(421)));
        check(&[], Some(400));
        check(&[("host", "localhost"), ("host", "localhost")], Some(400));
    }

    #[test]
    fn what_changes_something_or_has_a_body_is_refused() {
        let status = |method, pairs: &[(&'static str, &str)]| {
            proper(&method, &headers(pairs)).err().map(|it| it.0.as_u16())
        };
        assert_eq!(status(Method::GET, &[]), None);
        assert_eq!(status(Method::POST, &[]), Some(405));
        assert_eq!(status(Method::GET, &[("content-length", "5")]), Some(413));
        assert_eq!(status(Method::GET, &[("transfer-encoding", "chunked")]), Some(413));
    }

    #[test]
    fn the_token_shows_all_and_a_wrong_one_nothing() {
        let secret = Secret::of(None, None).expect("a token");
        let bearer = format!("Bearer {}", secret.text());
        let (near, mut far) = (Listen::default(), Listen::default());
        far.address = Some("10.0.0.1:1".parse().expect("an address"));
        let see = |listen, pairs: &[(&'static str, &str)], known| {
            sight((listen, &secret), &headers(pairs), known).map_err(|it| it.0.as_u16())
        };
        assert_eq!(see(&near, &[("authorization", &bearer)], false), Ok(Sight::Full));
        assert_eq!(see(&near, &[("authorization", "Bearer x")], true), Err(401));
        assert_eq!(see(&near, &[], false), Ok(Sight::Open));
        assert_eq!(see(&far, &[], false), Err(401));
        assert_eq!(see(&far, &[], true), Ok(Sight::Full));
    }
}
