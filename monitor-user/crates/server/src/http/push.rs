//! Pushes metrics to an OpenTelemetry collector: OTLP over HTTP, as JSON, compressed if configured.
//!
//! In: an endpoint, a period and a compression. Out: one POST of all metrics each period, and its
//! result. The counters are cumulative, so a failed push loses only one point in time, and is not
//! repeated.

use super::{body::Content, listen::AccessLevel};
use super::{daemon_request::DaemonRequest, loopback::metrics};
use crate::lock::lock;
use flate2::write::GzEncoder;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri, client::conn::http1};
use hyper_util::rt::TokioIo;
use monitor_format::exposition::Encoding;
use monitor_protocol::status::OtlpStatus;
use monitor_sampling::budget::KEPT_PUSHES;
use serde_json::Value;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{future::poll_fn, pin::pin, time::Duration};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio::{net::TcpStream, sync::mpsc};

/// How long one push may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 << 10;
/// The default path of collectors for metrics.
const PATH: &str = "/v1/metrics";

/// The configuration of pushing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushConfig {
    /// The URL of the collector; off, if absent.
    pub endpoint: Option<String>,
    /// The period, in nanoseconds.
    pub every_ns: u64,
    /// The compression of bodies.
    pub compression: Compression,
}

impl Default for PushConfig {
    fn default() -> Self {
        Self { endpoint: None, every_ns: 15_000_000_000, compression: Compression::None }
    }
}

/// How bodies are compressed, with the names of `OTEL_EXPORTER_OTLP_COMPRESSION`.
/// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    #[default]
    None,
    /// With gzip.
    Gzip,
}

impl Compression {
    /// The compression with this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let all = [Self::None, Self::Gzip];
        let named = all.into_iter().find(|it| it.name() == name);
        named.ok_or_else(|| format!("{name:?}: expected \"none\" or \"gzip\""))
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
        }
    }

    /// The body, compressed.
    fn compressed(self, body: Vec<u8>) -> std::io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(body),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&body)?;
                encoder.finish()
            }
        }
    }
}

/// The parts of the URL of a collector.
#[derive(Debug, PartialEq, Eq)]
struct Collector {
    authority: String,
    address: String,
    path: String,
}

/// Where pushes go, and their compression.
struct Destination {
    collector: Collector,
    compression: Compression,
}

/// The counts of pushes, and the last error.
#[derive(Clone, Default)]
pub struct PushStatus {
    status: Arc<Mutex<OtlpStatus>>,
    /// Whether the budget allows one of [`KEPT_PUSHES`] only.
    is_shed: Arc<AtomicBool>,
}

impl PushStatus {
    /// The current counts.
    pub fn status(&self) -> OtlpStatus {
        lock(&self.status).clone()
    }

    /// Makes one of [`KEPT_PUSHES`], or all of them again.
    pub fn shed(&self, shed: bool) {
        self.is_shed.store(shed, Ordering::Relaxed);
    }

    /// Whether the push of this number is made.
    fn is_kept(&self, number: u64) -> bool {
        !self.is_shed.load(Ordering::Relaxed) || number.is_multiple_of(KEPT_PUSHES)
    }

    fn record(&self, result: Result<(), String>) {
        let mut it = lock(&self.status);
        match result {
            Ok(()) => {
                it.pushed += 1;
                if it.last_error.take().is_some() {
                    tracing::info!(endpoint = it.endpoint, "metrics are pushed again");
                }
            }
            Err(why) => {
                it.failed += 1;
                // The same error is logged once.
                if it.last_error.as_ref() != Some(&why) {
                    tracing::warn!(endpoint = it.endpoint, "metrics are not pushed: {why}");
                }
                it.last_error = Some(why);
            }
        }
    }
}

/// Checks the URL of a collector.
///
/// # Errors
///
/// When it is not an HTTP address.
pub fn check_endpoint(endpoint: &str) -> Result<(), String> {
    parse_endpoint(endpoint).map(drop)
}

fn parse_endpoint(endpoint: &str) -> Result<Collector, String> {
    let wrong = |why: &str| format!("{endpoint:?}: {why}, such as \"http://127.0.0.1:4318\"");
    let uri: Uri = endpoint.parse().map_err(|_| wrong("expected a URL"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(wrong("TLS is not supported: push to a collector on this node with http"));
        }
        _ => return Err(wrong("expected a URL with http")),
    }
    let authority = uri.authority().ok_or_else(|| wrong("expected a URL with a host"))?;
    let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(4318));
    let path = if uri.path() == "/" { PATH } else { uri.path() };
    Ok(Collector { authority: authority.to_string(), address, path: path.to_owned() })
}

/// Starts to push, if that is configured; stops when the handle is aborted.
pub fn start(
    push: &PushConfig,
    asks: mpsc::Sender<DaemonRequest>,
) -> Option<(PushStatus, tokio::task::JoinHandle<()>)> {
    let endpoint = push.endpoint.as_ref()?;
    // The configuration was checked when it was read.
    let collector = parse_endpoint(endpoint).ok()?;
    let to = Destination { collector, compression: push.compression };
    let status = OtlpStatus { endpoint: endpoint.clone(), ..OtlpStatus::default() };
    let pushed = PushStatus { status: Arc::new(Mutex::new(status)), ..PushStatus::default() };
    let (status, every) = (pushed.clone(), Duration::from_nanos(push.every_ns));
    let task = tokio::spawn(async move {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0.. {
            let _now = ticks.tick().await;
            if !status.is_kept(number) {
                continue;
            }
            let late = |_| Err(format!("no answer within {TIMEOUT:?}"));
            status.record(timeout(TIMEOUT, push_once(&to, &asks)).await.unwrap_or_else(late));
        }
    });
    Some((pushed, task))
}

async fn push_once(to: &Destination, asks: &mpsc::Sender<DaemonRequest>) -> Result<(), String> {
    let Destination { collector: to, compression } = to;
    let text = |why: &dyn std::fmt::Display| why.to_string();
    let body = metrics(asks, AccessLevel::Full, Encoding::Otlp).await?;
    let body = compression.compressed(body).map_err(|why| text(&why))?;
    let stream = TcpStream::connect(&to.address).await.map_err(|why| text(&why))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|why| text(&why))?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(Method::POST).uri(&to.path);
    let request = request.header(HOST, &to.authority).header(CONTENT_TYPE, "application/json");
    let request = match compression {
        Compression::None => request,
        Compression::Gzip => request.header(CONTENT_ENCODING, compression.name()),
    };
    let request = request.body(Content::Whole(body.into())).map_err(|why| text(&why))?;
    let response = sender.send_request(request).await.map_err(|why| text(&why))?;
    let status = response.status();
    let answer_body = read_body(response.into_body()).await;
    connection.abort();
    if !status.is_success() {
        return Err(format!("the collector answered {status}"));
    }
    check_accepted(&answer_body)
}

/// The beginning of a body.
async fn read_body(body: Incoming) -> Vec<u8> {
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

/// Checks for a partial success: a collector may reject points in an answer with status 200.
fn check_accepted(answer: &[u8]) -> Result<(), String> {
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
    fn an_endpoint_has_default_port_and_path() {
        let parts = |it: &str| parse_endpoint(it).map(|it| (it.address, it.path));
        let both = |address: &str, path: &str| Ok((address.to_owned(), path.to_owned()));
        assert_eq!(parts("http://localhost"), both("localhost:4318", "/v1/metrics"));
        assert_eq!(parts("http://10.0.0.1:9/in"), both("10.0.0.1:9", "/in"));
        assert!(parts("https://x").is_err_and(|it| it.contains("TLS is not supported")));
        assert!(parts("x").is_err() && parts("").is_err() && parts("ftp://x").is_err());
    }

    #[test]
    fn above_the_budget_one_of_four_pushes_is_made() {
        let pushes = PushStatus::default();
        let kept = || (0..8).filter(|number| pushes.is_kept(*number)).collect::<Vec<_>>();
        assert_eq!(kept(), [0, 1, 2, 3, 4, 5, 6, 7]);
        pushes.shed(true);
        assert_eq!(kept(), [0, 4]);
        pushes.shed(false);
        assert_eq!(kept().len(), 8);
    }

    #[test]
    fn rejected_points_are_reported() {
        assert_eq!(check_accepted(b"{}"), Ok(()));
        assert_eq!(check_accepted(b""), Ok(()));
        let part = br#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#;
        assert_eq!(check_accepted(part), Err("the collector rejected 3 points: too old".into()));
    }
}
