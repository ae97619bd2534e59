//! The category `hw` of `mon/`: counters of each processor, of the hardware and of the kernel.
//!
//! In: the processors that are on. Out: a sample as JSON, as the pipeline makes those of the other
//! categories. Counters are open while a reader is there, and a while longer, so that a reader that
//! comes again can subtract; without a reader nothing is counted. What a machine cannot count is
//! absent, and the description says why.

use super::counter_fields::{COUNTERS, FIELDS};
use super::event_feed::unix_ns;
use super::node_sample;
use super::sexpr::put_word;
use crate::lock::lock;
use monitor_ninep::{Errno, FileError};
use monitor_sys::perf_counter::{Counter, CounterEvent};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use std::{fs, io};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How long counters stay open without a reader.
const CLOSE_DELAY: Duration = Duration::from_secs(60);
/// The processors that are on.
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Most processors: each takes a descriptor for each event.
const MAX_CPUS: u32 = 1024;

/// The counters of all readers.
#[derive(Default)]
pub struct CpuCounters {
    open: Mutex<Option<KeptCounters>>,
}

struct KeptCounters {
    counters: Arc<OpenCounters>,
    used: Instant,
}

/// Open counters, by processor.
struct OpenCounters(Vec<(u32, Vec<(CounterEvent, Counter)>)>);

impl CpuCounters {
    /// A sample as JSON, for a node with this name.
    ///
    /// # Errors
    ///
    /// When nothing can be counted here, or there are no descriptors.
    pub async fn sample(self: &Arc<Self>, node: &str) -> Result<String, FileError> {
        // To open and read those of many processors takes milliseconds.
        let counters = Arc::clone(self);
        let rows = spawn_blocking(move || counters.rows()).await;
        let rows = rows.map_err(|_| FileError::new(Errno::Io, "the daemon ends"))??;
        let stats = json!({COUNTERS: rows});
        let sample = json!({"node": node, "time_unix_ns": unix_ns(), "node_stats": stats});
        Ok(sample.to_string())
    }

    fn rows(self: &Arc<Self>) -> Result<Vec<Value>, FileError> {
        let counters = self.counters()?;
        Ok(counters.0.iter().filter_map(|it| row(it.0, &it.1)).collect())
    }

    fn counters(self: &Arc<Self>) -> Result<Arc<OpenCounters>, FileError> {
        let mut open = lock(&self.open);
        if let Some(kept) = open.as_mut() {
            kept.used = Instant::now();
            return Ok(Arc::clone(&kept.counters));
        }
        let counters = Arc::new(OpenCounters::open()?);
        *open = Some(KeptCounters { counters: Arc::clone(&counters), used: Instant::now() });
        tokio::spawn(close_unused(Arc::downgrade(self)));
        Ok(counters)
    }
}

/// Closes the counters when they were not read for a while.
async fn close_unused(counters: Weak<CpuCounters>) {
    loop {
        sleep(CLOSE_DELAY / 4).await;
        let Some(counters) = counters.upgrade() else { return };
        let mut open = lock(&counters.open);
        if open.as_ref().is_none_or(|it| it.used.elapsed() > CLOSE_DELAY) {
            *open = None;
            return;
        }
    }
}

impl OpenCounters {
    fn open() -> Result<Self, FileError> {
        let events = supported();
        let events: Vec<CounterEvent> = CounterEvent::ALL
            .into_iter()
            .zip(events)
            .filter_map(|(event, refused)| refused.is_none().then_some(event))
            .collect();
        if events.is_empty() {
            let why = events_text(supported()).trim().to_owned();
            return Err(FileError::new(Errno::NotPermitted, format!("nothing is counted: {why}")));
        }
        let mut all = Vec::new();
        for cpu in online() {
            let mut of_cpu = Vec::new();
            for event in &events {
                match Counter::open(cpu, *event) {
                    Ok(counter) => of_cpu.push((*event, counter)),
                    // It was turned off, or lacks this event.
                    Err(why) if !is_limit(&why) => {}
                    Err(why) => {
                        let why = format!("counters of processor {cpu}: {why}: raise LimitNOFILE=");
                        return Err(FileError::new(Errno::TryAgain, why));
                    }
                }
            }
            all.push((cpu, of_cpu));
        }
        Ok(Self(all))
    }
}

/// A row with what the counters of a processor have; none when it was turned off.
fn row(cpu: u32, counters: &[(CounterEvent, Counter)]) -> Option<Value> {
    let mut row = Map::new();
    let mut scaled = Vec::new();
    let mut counted_ns = 0;
    row.insert("cpu".to_owned(), cpu.into());
    for (event, counter) in counters {
        let Ok(value) = counter.read() else { continue };
        let name = name(*event);
        // What has not counted at all has no number.
        let Some(count) = value.scaled() else { continue };
        row.insert(name.to_owned(), count.into());
        counted_ns = counted_ns.max(value.enabled_ns);
        if value.is_partial() {
            scaled.push(name);
        }
    }
    row.insert("counted_ns".to_owned(), counted_ns.into());
    if !scaled.is_empty() {
        row.insert("scaled".to_owned(), scaled.join(",").into());
    }
    (counted_ns > 0).then_some(Value::Object(row))
}

fn name(event: CounterEvent) -> &'static str {
    let listed = CounterEvent::ALL.iter().zip(FIELDS).find(|it| *it.0 == event);
    listed.map_or("", |it| it.1.name)
}

/// The description: the numbers that are counted here, and why others are not.
pub fn description() -> String {
    let refused = supported();
    let mut out = format!("(desc (cat {COUNTERS}");
    let counted = FIELDS.iter().zip(refused.iter().chain([&None]));
    for (field, _) in counted.filter(|it| it.1.is_none()) {
        node_sample::put_variable(&mut out, field);
    }
    out.push_str(&events_text(refused));
    out.push_str("))\n");
    out
}

/// The events that are not counted here, as lists.
fn events_text(refused: &[Option<String>]) -> String {
    let mut out = String::new();
    for (event, why) in CounterEvent::ALL.into_iter().zip(refused) {
        if let Some(why) = why {
            let _ = write!(out, " (unsupported {} ", name(event));
            put_word(&mut out, why);
            out.push(')');
        }
    }
    out
}

/// For each of [`CounterEvent::ALL`], why it is not counted here; none if it is.
fn supported() -> &'static [Option<String>] {
    static REFUSED: OnceLock<Vec<Option<String>>> = OnceLock::new();
    REFUSED.get_or_init(|| {
        let first = online().next().unwrap_or(0);
        let refused = |event: CounterEvent| {
            let why = Counter::open(first, event).err().filter(|it| !is_limit(it))?;
            Some(reason(event, &why))
        };
        CounterEvent::ALL.map(refused).to_vec()
    })
}

/// Why an event is not counted.
fn reason(event: CounterEvent, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported if event.is_hardware() => {
            "no counter of this processor is available: a virtual machine may have none".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "the service may not count: it needs CAP_PERFMON, or kernel.perf_event_paranoid of at \
             most 0"
                .to_owned()
        }
        _ => why.to_string(),
    }
}

/// Whether there is no room for a descriptor.
fn is_limit(why: &io::Error) -> bool {
    // EMFILE and ENFILE.
    matches!(why.raw_os_error(), Some(24 | 23))
}

/// The numbers of the processors that are on.
fn online() -> impl Iterator<Item = u32> {
    parse_list(&fs::read_to_string(ONLINE).unwrap_or_default()).into_iter()
}

/// The numbers of a list such as `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<u32>().ok()?.min(MAX_CPUS - 1))
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_has_ranges() {
        assert_eq!(parse_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(parse_list("").is_empty());
        assert_eq!(parse_list("4-99999999").len(), 1020);
    }

    #[test]
    fn a_description_has_each_event_once() {
        let text = description();
        for (event, field) in CounterEvent::ALL.into_iter().zip(FIELDS) {
            assert_eq!(name(event), field.name);
            assert_eq!(text.matches(&format!(" {} ", field.name)).count(), 1, "{text}");
        }
        assert!(text.contains("(var counted_ns counter ns)") && text.ends_with("))\n"), "{text}");
    }
}
