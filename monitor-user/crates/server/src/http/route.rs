//! The routes: from a request to its response.
//!
//! In: a complete request. Out: a response. The headers of every response forbid content of other
//! sites and caching.

use super::body::{Answer, Content, Live};
use super::loopback::{LoopbackClient, metrics};
use super::{
    cluster_feed, filter, guard, history, listen::AccessLevel, live, negotiation, page,
    rank_feed::OpenJob, state::ListenerState,
};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc::Receiver, time::timeout};

/// How long a reading may take before a scrape fails.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Headers of every response.
const ALWAYS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Answers a request; `is_authenticated` means that the sender has a client certificate.
pub async fn answer(
    shared: &Arc<ListenerState>,
    request: &Request<Incoming>,
    is_authenticated: bool,
) -> Response<Content> {
    let answer = match route(shared, request, is_authenticated).await {
        Ok(answer) => answer,
        Err((status, why)) => {
            shared.admission.count(status.canonical_reason().unwrap_or("refused"));
            Answer::refused((status, &why))
        }
    };
    response(answer, request.method())
}

type RouteError = (StatusCode, String);

async fn route(
    shared: &Arc<ListenerState>,
    request: &Request<Incoming>,
    is_authenticated: bool,
) -> Result<Answer, RouteError> {
    let owned = |(status, why): guard::HttpRefusal| (status, why.to_owned());
    let headers = request.headers();
    // Seeking in a recording is the only request that changes something.
    let seek = shared.playback.as_ref().filter(|_| is_seek(request));
    match seek {
        Some(_) => guard::check_no_body(headers),
        None => guard::check_method(request.method(), headers),
    }
    .map_err(owned)?;
    guard::check_host(&shared.listen, request.uri(), headers).map_err(owned)?;
    let access = || {
        guard::access_level((&shared.listen, &shared.token), headers, is_authenticated)
            .map_err(owned)
    };
    let query = request.uri().query().unwrap_or_default();
    if let Some(clock) = seek {
        return match access()? {
            AccessLevel::Full => clock.seek(query).map_err(|why| (StatusCode::BAD_REQUEST, why)),
            AccessLevel::Open => Err((StatusCode::FORBIDDEN, "seeking needs the token".to_owned())),
        }
        .map(|()| Answer::whole("text/plain; charset=utf-8", ""));
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
            let (encoding, media) = negotiation::form(accept);
            let metrics = metrics(&shared.requests, access()?, encoding);
            let bytes = timeout(READ_TIMEOUT, metrics).await.unwrap_or_else(|_| {
                Err(format!("no reading within {READ_TIMEOUT:?}: the machine is overloaded"))
            });
            let bytes = bytes.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
            Ok(Answer::whole(media, bytes))
        }
        "/feed" => events(shared.feeds[access()? as usize].subscribe(None).await),
        "/fits" => {
            let feed = &shared.feeds[access()? as usize];
            events(match filter::condition(query) {
                Ok(condition) => feed.subscribe(Some(condition)).await,
                // Not a refusal: errors are normal while a condition is typed, and a browser would
                // log them.
                Err(why) => Ok(filter::error_event(&why)),
            })
        }
        "/process" => watch(shared, access()?, live::process(query)).await,
        "/history" => {
            let json = history::respond(shared, access()?, query).await;
            let json = json.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            Ok(Answer::whole("application/json", json))
        }
        "/latency" => watch(shared, access()?, live::latency(query)).await,
        "/cluster" => {
            let parameters = cluster_feed::parameters(query);
            let parameters = parameters.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            let client = LoopbackClient::connect(&shared.requests, access()?).await;
            events(client.map(|client| cluster_feed::run(client, parameters)))
        }
        "/ranks" => {
            let job = OpenJob::from_query(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            events(shared.ranks[access()? as usize].subscribe(job).await)
        }
        path => page::asset(path).ok_or_else(|| {
            (StatusCode::NOT_FOUND, "not found: the paths are / and /metrics".to_owned())
        }),
    }
}

fn is_seek(request: &Request<Incoming>) -> bool {
    *request.method() == Method::POST && request.uri().path() == "/seek"
}

/// Starts a monitor for one viewer.
async fn watch(
    shared: &ListenerState,
    access: AccessLevel,
    request: Result<Value, String>,
) -> Result<Answer, RouteError> {
    let request = request.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let client = LoopbackClient::connect(&shared.requests, access).await;
    events(client.map(|client| live::run(client, request)))
}

/// A response with a stream of events.
fn events(from: Result<Receiver<Bytes>, String>) -> Result<Answer, RouteError> {
    let queue = from.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
    let (status, content) = (StatusCode::OK, Content::Live(Live::new(queue)));
    Ok(Answer { status, media: "text/event-stream; charset=utf-8", content })
}

fn response(answer: Answer, method: &Method) -> Response<Content> {
    let Answer { status, media, content } = answer;
    let content = if method == Method::HEAD { Content::Whole(Bytes::new()) } else { content };
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS.into_iter().chain([("content-type", media)]) {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
