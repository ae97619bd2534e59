//! A question to the servers that failed, and how long an answer is awaited.

use std::error::Error;
use std::time::Duration;
use thiserror::Error;

/// How long a question to the server, or the acknowledgement of an entry, is awaited.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// The same where there is one server: none is elected, and what is late was not lost.
pub const ONE_SERVER: Duration = Duration::from_secs(10);

/// A question that failed.
#[derive(Debug, Error)]
#[error("{question}: {error}")]
pub struct Failed {
    question: &'static str,
    error: Box<dyn Error + Send + Sync>,
}

/// What makes the error of a question of its cause.
pub fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    question: &'static str,
) -> impl FnOnce(E) -> Failed {
    move |error| Failed { question, error: error.into() }
}
