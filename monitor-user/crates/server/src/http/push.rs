//! Metrics pushed to an OpenTelemetry collector: OTLP over HTTP, as JSON.
//!
//! In: an endpoint, and how often. Out: one POST of everything each time, and how that went. The
//! counters are cumulative, so a push that fails loses nothing but its point in time, and none is
//! kept to be sent again.

use super::body::Content;
use super::{Ask, Sight};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use monitor_format::exposition::Encoding;
use monitor_protocol::status::Otlp;
use serde_json::Value;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long one push may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most of an answer that is read.
const ANSWER_BYTES: usize = 64 << 10;
/// Where collectors take metrics, unless something else is said.
const PATH: &str = "/v1/metrics";

/// Where to, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The collector; nobody, if absent.
    pub endpoint: Option<String>,
    /// Nanoseconds from one push to the next.
    pub every_ns: u64,
}

impl Default for Push {
    fn default() -> Self {
        Self { endpoint: None, every_ns: 15_000_000_000 }
    }
}

/// A collector, as it is reached.
#[derive(Debug, PartialEq, Eq)]
struct Collector {
    authority: String,
    address: String,
    path: String,
}

/// How it goes.
#[derive(Clone, Default)]
pub struct Pushed(Arc<Mutex<Otlp>>);

impl Pushed {
    /// Until now.
    pub fn status(&self) -> Otlp {
        // Every change is whole, whatever became of who made it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, result: Result<(), String>) {
        let mut it = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => {
                it.pushed += 1;
                if it.trouble.take().is_some() {
                    tracing::info!(endpoint = it.endpoint, "metrics are pushed again");
                }
            }
            Err(why) => {
                it.failed += 1;
                // Told once, however often it happens.
                if it.trouble.as_ref() != Some(&why) {
                    tracing::warn!(endpoint = it.endpoint, "metrics are not pushed: {why}");
                }
                it.trouble = Some(why);
            }
        }
    }
}

/// Whether metrics can be pushed there.
pub fn possible(endpoint: &str) -> Result<(), String> {
    collector(endpoint).map(drop)
}

fn collector(endpoint: &str) -> Result<Collector, String> {
    let wrong = |why: &str| format!("{endpoint:?}: {why}, such as \"http://127.0.0.1:4318\"");
    let uri: Uri = endpoint.parse().map_err(|_| wrong("an address"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(wrong("TLS is left to a collector on this node: an address with http"));
        }
        _ => return Err(wrong("an address with http")),
    }
    let authority = uri.authority().ok_or_else(|| wrong("an address with a host"))?;
    let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(4318));
    let path = if uri.path() == "/" { PATH } else { uri.path() };
    Ok(Collector { authority: authority.to_string(), address, path: path.to_owned() })
}

/// Begins to push; ends with the handle.
pub fn start(
    push: &Push,
    asks: mpsc::Sender<Ask>,
) -> Option<(Pushed, tokio::task::JoinHandle<()>)> {
    let endpoint = push.endpoint.as_ref()?;
    // What is configured was checked as it was read.
    let collector = collector(endpoint).ok()?;
    let status = Otlp { endpoint: endpoint.clone(), ..Otlp::default() };
    let pushed = Pushed(Arc::new(Mutex::new(status)));
    let (told, every) = (pushed.clone(), Duration::from_nanos(push.every_ns));
    let task = tokio::spawn(async move {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let _now = ticks.tick().await;
            let late = |_| Err(format!("no answer within {PATIENCE:?}"));
            told.note(timeout(PATIENCE, once(&collector, &asks)).await.unwrap_or_else(late));
        }
    });
    Some((pushed, task))
}

async fn once(to: &Collector, asks: &mpsc::Sender<Ask>) -> Result<(), String> {
    let (reply, answer) = oneshot::channel();
    let ask = Ask::Metrics { sight: Sight::Full, encoding: Encoding::Otlp, reply };
    // The loop ends with the service, and this with it.
    let _ = asks.send(ask).await;
    let body = answer.await.map_err(|_| "the service ends".to_owned())??;
    let told = |why: &dyn std::fmt::Display| why.to_string();
    let stream = TcpStream::connect(&to.address).await.map_err(|why| told(&why))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|why| told(&why))?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(Method::POST).uri(&to.path);
    let request = request.header(HOST, &to.authority).header(CONTENT_TYPE, "application/json");
    let request = request.body(Content::Whole(body.into())).map_err(|why| told(&why))?;
    let response = sender.send_request(request).await.map_err(|why| told(&why))?;
    let status = response.status();
    let said = text(response.into_body()).await;
    connection.abort();
    if !status.is_success() {
        return Err(format!("the collector answers {status}"));
    }
    taken(&said)
}

/// As much of the answer as matters.
async fn text(body: Incoming) -> Vec<u8> {
    let mut body = pin!(body);
    let mut text = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        if text.len() > ANSWER_BYTES {
            break;
        }
    }
    text
}

/// A collector may take a part, and says so in an answer that is a success.
fn taken(answer: &[u8]) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let part = &answer["partialSuccess"];
    let rejected = &part["rejectedDataPoints"];
    let rejected = rejected.as_str().and_then(|it| it.parse().ok()).or_else(|| rejected.as_u64());
    match rejected {
        Some(points @ 1..) => {
            let why = part["errorMessage"].as_str().unwrap_or("without a reason");
            Err(format!("the collector rejected {points} points: {why}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_usual_port_and_path_unless_it_says_others() {
        let told = |it: &str| collector(it).map(|it| (it.address, it.path));
        let both = |address: &str, path: &str| Ok((address.to_owned(), path.to_owned()));
        assert_eq!(told("http://localhost"), both("localhost:4318", "/v1/metrics"));
        assert_eq!(told("http://10.0.0.1:9/in"), both("10.0.0.1:9", "/in"));
        assert!(told("https://x").is_err_and(|it| it.contains("TLS is left to a collector")));
        assert!(told("x").is_err() && told("").is_err() && told("ftp://x").is_err());
    }

    #[test]
    fn a_part_that_was_rejected_is_told() {
        assert_eq!(taken(b"{}"), Ok(()));
        assert_eq!(taken(b""), Ok(()));
        let part = br#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#;
        assert_eq!(taken(part), Err("the collector rejected 3 points: too old".into()));
    }
}
