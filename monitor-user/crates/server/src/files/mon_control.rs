//! An open `mon/ctl`, of the node or of a session, and what it sets in motion: a task that watches
//! the thresholds.
//!
//! In: lines of what is written, and samples of the user that has written. Out: what was set, and
//! an event when a threshold begins to hold and when it ends to.

use super::event_feed::unix_ns;
use super::mon_settings::{MonSettings, Threshold};
use super::sample_filter::{Condition, HeldRow};
use super::sample_source::SampleSource;
use super::session::{ControlLines, file_error};
use super::sexpr::put_pair;
use bytes::Bytes;
use monitor_control::session::SessionHold;
use monitor_ninep::FileError;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a line.
const MAX_LINE: usize = 4 << 10;

/// An open `mon/ctl`.
pub struct MonControlFile {
    source: SampleSource,
    lines: ControlLines,
    /// What keeps its session.
    _hold: Option<SessionHold>,
}

impl MonControlFile {
    /// Opened by the user of this source.
    pub fn new(source: SampleSource, hold: Option<SessionHold>) -> Self {
        Self { source, lines: ControlLines::new(MAX_LINE), _hold: hold }
    }

    /// What a read says.
    pub fn text(&self) -> Bytes {
        settings(&self.source).text().into()
    }

    /// Carries out the lines of a write.
    ///
    /// # Errors
    ///
    /// As the first line that fails.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        let source = &self.source;
        let done = self.lines.carry_out(content, |line| {
            if settings(source).control(line)? {
                let (uid, line) = (source.user.uid, String::from_utf8_lossy(line));
                tracing::info!(uid, "files: mon/ctl: {line}");
                restart(source);
            }
            Ok(())
        });
        done.map(|()| content.len()).map_err(file_error)
    }
}

/// What is set for the node or the session of a source.
fn settings(source: &SampleSource) -> &MonSettings {
    match &source.session {
        Some(session) => &session.monitor,
        None => &source.node.monitor,
    }
}

/// Watches the thresholds as they are now.
fn restart(source: &SampleSource) {
    let (thresholds, period) = settings(source).watched();
    let watch = (!thresholds.is_empty()).then(|| {
        let task = watch(source.clone(), thresholds, period);
        tokio::spawn(task).abort_handle()
    });
    settings(source).set_watch(watch);
}

/// Reports when a condition begins to hold, and when it ends to.
async fn watch(source: SampleSource, thresholds: Vec<Arc<Threshold>>, period: Duration) {
    let conditions: Vec<Condition> = thresholds.iter().map(|it| it.condition.clone()).collect();
    let followed = source.follow(period, |sample| {
        let rows = source.holding(sample, &conditions)?;
        for (threshold, row) in thresholds.iter().zip(rows) {
            if threshold.changes_to(row.is_some()) {
                report(&source, &content(&threshold.condition, row.as_ref()));
            }
        }
        Ok(())
    });
    if let Err(error) = followed.await {
        tracing::warn!("thresholds are not watched any longer: {}", error.explanation);
        report(&source, "(missing threshold)");
    }
}

/// Adds an event for those that follow some.
fn report(source: &SampleSource, content: &str) {
    match &source.session {
        Some(session) => {
            if let Some(feed) = session.feed.get() {
                feed.log.add(unix_ns(), content);
            }
        }
        None => source.node.feeds.report(content),
    }
}

/// `(threshold (number cpu.busy_ns) …)`: what begins so is of the category of the number.
fn content(condition: &Condition, row: Option<&HeldRow>) -> String {
    let mut out = "(threshold ".to_owned();
    put_pair(&mut out, "number", &condition.number());
    out.push(' ');
    put_pair(&mut out, "condition", &condition.to_string());
    out.push(' ');
    put_pair(&mut out, "holds", if row.is_some() { "yes" } else { "no" });
    if let Some(row) = row {
        if !row.name.is_empty() {
            out.push(' ');
            put_pair(&mut out, "row", &row.name);
        }
        out.push(' ');
        put_pair(&mut out, "value", &row.value.to_string());
    }
    out.push(')');
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample_filter::CategoryFields;
    use super::*;
    use monitor_model::field::{Category, CpuField};

    #[test]
    fn an_event_names_the_number_the_condition_and_the_row() {
        const KNOWN: &[CategoryFields] = &[("cpu", CpuField::FIELDS)];
        let condition = Condition::parse((">", "cpu.busy_ns", "2.5"), KNOWN).expect("one");
        let row = HeldRow { name: "0".to_owned(), value: 3.0 };
        assert_eq!(
            content(&condition, Some(&row)),
            "(threshold (number cpu.busy_ns) (condition 'cpu.busy_ns > 2.5') (holds yes) (row 0) \
             (value 3))"
        );
        let over = "(threshold (number cpu.busy_ns) (condition 'cpu.busy_ns > 2.5') (holds no))";
        assert_eq!(content(&condition, None), over);
    }
}
