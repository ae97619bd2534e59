//! From a request to its answer: the list of what there is.
//!
//! In: a request that arrived whole. Out: a response. Every response says that nothing of another
//! site may be loaded into it, and that nobody may keep it but as it says.

use super::body::{Content, Live};
use super::guest::Guest;
use super::{Ask, Shared, Sight, fits, guard, history, live, negotiation, page};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use monitor_format::exposition::Encoding;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a reading may take before a collector is told that there is none.
const READING: Duration = Duration::from_secs(30);

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

/// What is answered.
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    /// What it is.
    pub media: &'static str,
    /// What it says.
    pub content: Content,
}

impl Answer {
    /// All of it.
    pub fn whole(media: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, media, content: Content::Whole(bytes.into()) }
    }

    /// A line that says what is wrong.
    fn refused((status, why): (StatusCode, &str)) -> Self {
        let text = format!("{why}\n");
        Self { status, ..Self::whole("text/plain; charset=utf-8", text) }
    }
}

/// Answers a request. `known` is somebody with a certificate.
pub async fn answer(
    shared: &Arc<Shared>,
    request: &Request<Incoming>,
    known: bool,
) -> Response<Content> {
    let answer = match found(shared, request, known).await {
        Ok(answer) => answer,
        Err((status, why)) => {
            shared.admission.count(status.canonical_reason().unwrap_or("refused"));
            Answer::refused((status, &why))
        }
    };
    response(answer, request.method())
}

type Refused = (StatusCode, String);

async fn found(
    shared: &Arc<Shared>,
    request: &Request<Incoming>,
    known: bool,
) -> Result<Answer, Refused> {
    let told = |(status, why): guard::Refusal| (status, why.to_owned());
    let headers = request.headers();
    // Of a recording, and of nothing else, a viewer may turn the hand.
    let turned = shared.dial.as_ref().filter(|_| is_turn(request));
    match turned {
        Some(_) => guard::bare(headers),
        None => guard::proper(request.method(), headers),
    }
    .map_err(told)?;
    guard::host(&shared.listen, request.uri(), headers).map_err(told)?;
    let sight = || guard::sight((&shared.listen, &shared.secret), headers, known).map_err(told);
    let query = request.uri().query().unwrap_or_default();
    if let Some(dial) = turned {
        return match sight()? {
            Sight::Full => dial.turn(query).map_err(|why| (StatusCode::BAD_REQUEST, why)),
            Sight::Open => Err((StatusCode::FORBIDDEN, "it takes the token".to_owned())),
        }
        .map(|()| Answer::whole("text/plain; charset=utf-8", ""));
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
            let (encoding, media) = negotiation::form(accept);
            let sight = sight()?;
            metrics(shared, |reply| Ask::Metrics { sight, encoding, reply }, (encoding, media))
                .await
        }
        "/feed" => events(shared.feeds[sight()? as usize].show(shared, sight()?).await),
        "/fits" => {
            let feed = &shared.feeds[sight()? as usize];
            events(match fits::condition(query) {
                Ok(condition) => feed.filter((shared, sight()?), condition).await,
                // No refusal: who types has a right to mistakes, and a browser would log it.
                Err(why) => Ok(fits::wrong(&why)),
            })
        }
        "/process" => watch(shared, sight()?, live::process(query)).await,
        "/history" => {
            let told = history::told(shared, sight()?, query).await;
            let told = told.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            Ok(Answer::whole("application/json", told))
        }
        "/latency" => watch(shared, sight()?, live::latency(query)).await,
        path => page::asset(path)
            .ok_or_else(|| (StatusCode::NOT_FOUND, "there are / and /metrics here".to_owned())),
    }
}

fn is_turn(request: &Request<Incoming>) -> bool {
    *request.method() == Method::POST && request.uri().path() == "/seek"
}

/// A monitor of one viewer's own.
async fn watch(
    shared: &Shared,
    sight: Sight,
    asked: Result<Value, String>,
) -> Result<Answer, Refused> {
    let asked = asked.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let guest = Guest::join(shared, sight).await;
    events(guest.map(|guest| live::run(guest, asked)))
}

/// Events as they come.
fn events(from: Result<Receiver<Bytes>, String>) -> Result<Answer, Refused> {
    let queue = from.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
    let (status, content) = (StatusCode::OK, Content::Live(Live::new(queue)));
    Ok(Answer { status, media: "text/event-stream; charset=utf-8", content })
}

async fn metrics(
    shared: &Shared,
    ask: impl FnOnce(oneshot::Sender<Result<Vec<u8>, String>>) -> Ask,
    (_, media): (Encoding, &'static str),
) -> Result<Answer, Refused> {
    let (reply, answer) = oneshot::channel();
    // The loop ends with the service, and this with it.
    let _ = shared.asks.send(ask(reply)).await;
    match timeout(READING, answer).await {
        Ok(Ok(Ok(bytes))) => Ok(Answer::whole(media, bytes)),
        Ok(Ok(Err(why))) => Err((StatusCode::SERVICE_UNAVAILABLE, why)),
        Ok(Err(_)) => Err((StatusCode::SERVICE_UNAVAILABLE, "the service ends".to_owned())),
        Err(_) => {
            let why = format!("no reading within {READING:?}: the machine is overloaded");
            Err((StatusCode::SERVICE_UNAVAILABLE, why))
        }
    }
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
