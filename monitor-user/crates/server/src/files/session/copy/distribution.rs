//! Copies a session to others, over a tree of them.
//!
//! In: the source and its targets. Out: an outcome for each target, once. The list is cut into
//! parts; the first target of each part gets the copy from here, and copies it to the rest. What a
//! target does not report on, because it is dead or silent, is copied from here.

use super::super::LiveSession;
use super::outcome::{self, Outcome, ReportLine};
use super::scan;
use super::sender::send;
use super::source::CopySource;
use monitor_control::session::copy_target::{CopyPart, CopyTarget, parts};
use monitor_control::session::{Refusal, SessionError};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long all copies may take.
pub const COPY_TIME: Duration = Duration::from_secs(600);

/// A target with its number.
type Numbered = (usize, CopyTarget);
/// Where outcomes go, with the numbers of their targets.
pub type Outcomes = UnboundedSender<(usize, Outcome)>;

/// Carries out the line `clone` of a session: what `err` says of each target is there at its end.
///
/// # Errors
///
/// When a copy has failed, or the session cannot be copied.
pub async fn clone(
    live: Arc<LiveSession>,
    width: usize,
    targets: Vec<CopyTarget>,
) -> Result<(), SessionError> {
    let Ok(_turn) = live.copies.try_acquire() else {
        let why = "clone: the session is being copied: wait for the end of that";
        return Err(SessionError::new(Refusal::Busy, why));
    };
    live.record.set_outcomes(String::new());
    let content = scan::content(&live).await?;
    let through = vec![live.context.session_id(live.record.number)];
    let until = Instant::now() + COPY_TIME;
    let source = CopySource { live: Arc::clone(&live), content, through, until, width };
    let (to, mut from) = unbounded_channel();
    distribute(Arc::new(source), targets.iter().cloned().enumerate().collect(), to).await;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; targets.len()];
    while let Some((number, outcome)) = from.recv().await {
        outcomes[number] = Some(outcome);
    }
    let (lines, failed) = outcome::lines(&targets, &outcomes);
    live.record.set_outcomes(lines);
    if failed == 0 {
        return Ok(());
    }
    let count = targets.len();
    let why =
        format!("clone: {failed} of {count} copies failed: the file err of the session has why");
    Err(SessionError::new(Refusal::Incomplete, why))
}

/// Copies to targets, and sends the outcome of each.
pub fn distribute(
    source: Arc<CopySource>,
    targets: Vec<Numbered>,
    outcomes: Outcomes,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut tasks = JoinSet::new();
        for part in parts(targets, source.width) {
            tasks.spawn(copy_part(Arc::clone(&source), part, outcomes.clone()));
        }
        while tasks.join_next().await.is_some() {}
    })
}

/// Copies to the head of a part, and to what that does not report on.
async fn copy_part(source: Arc<CopySource>, part: CopyPart<Numbered>, outcomes: Outcomes) {
    let CopyPart { head: (number, head), rest } = part;
    let relay: Vec<CopyTarget> = rest.iter().map(|it| it.1.clone()).collect();
    let mut left: BTreeMap<usize, Numbered> = rest.into_iter().enumerate().collect();
    let mut is_copied = false;
    let ended = send(&source, (&head, &relay), |line| {
        match line {
            ReportLine::Working => {}
            ReportLine::Copied => {
                is_copied = true;
                // The receiver is there as long as this.
                let _ = outcomes.send((number, Ok(())));
            }
            ReportLine::Outcome(at, outcome) => {
                let known = left.remove(&at);
                let (number, _) = known.ok_or("it reports on a target that it has not got")?;
                let _ = outcomes.send((number, outcome));
            }
        }
        Ok(())
    });
    let ended = ended.await;
    if !is_copied {
        let why = ended.err().unwrap_or_else(|| "it does not say that it has its copy".to_owned());
        let _ = outcomes.send((number, Err(why)));
    }
    if left.is_empty() {
        return;
    }
    if Instant::now() >= source.until {
        for (number, _) in left.into_values() {
            let _ = outcomes.send((number, Err("the time for all copies is over".to_owned())));
        }
        return;
    }
    distribute(source, left.into_values().collect(), outcomes).await;
}
