//! The history of a process or the node before the page was opened, from the flight recorder or
//! the recording that is played.
//!
//! In: the query of a URL. Out: JSON with times and values by column, or why there are none. A
//! recording shows all processes in full, so it is read only with full access. Histories are read
//! one at a time, on a blocking thread.

use super::message::{Message, number, value};
use super::{listen::AccessLevel, loopback::LoopbackClient, state::ListenerState};
use monitor_model::{Category, Identity, NodeField, Ns, Pid, ProcessField, Sample, rates};
use monitor_protocol::answer::FlightPart;
use monitor_recording::{Error, Recording};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fs::File, io::Write as _};

/// The time that is shown: as much as the page keeps.
const WINDOW: Ns = Ns(300_000_000_000);
const PROCESS_FIELDS: [ProcessField; 4] = [
    ProcessField::CpuPercent,
    ProcessField::Rss,
    ProcessField::ReadRate,
    ProcessField::WrittenRate,
];
const NODE_FIELDS: [NodeField; 5] = [
    NodeField::UserPercent,
    NodeField::NicePercent,
    NodeField::SystemPercent,
    NodeField::IrqPercent,
    NodeField::SoftirqPercent,
];

/// Values over time.
#[derive(Debug, Default, PartialEq, Serialize)]
struct History {
    /// The field of each list of values.
    columns: Vec<&'static str>,
    /// Seconds since 1970.
    t: Vec<f64>,
    /// A list for each column, as long as `t`.
    values: Vec<Vec<Option<f64>>>,
    /// Why there are no values.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The process; the node, if absent.
type Target = Option<Identity>;

/// The history that a query requests, as JSON.
pub async fn respond(
    shared: &ListenerState,
    access: AccessLevel,
    query: &str,
) -> Result<Vec<u8>, String> {
    let target = target_from_query(query)?;
    let history = match access {
        AccessLevel::Full => read(shared, target).await,
        AccessLevel::Open => Err("the history needs the token".to_owned()),
    };
    let history = history.unwrap_or_else(|why| History { why: Some(why), ..History::default() });
    Ok(serde_json::to_vec(&history).expect("keys are names"))
}

fn target_from_query(query: &str) -> Result<Target, String> {
    let Some(start) = value(query, "start") else { return Ok(None) };
    let start = start.parse().map_err(|_| format!("start={start:?}: nanoseconds since boot"))?;
    Ok(Some(Identity { pid: Pid(number(query, "pid")?), start: Ns(start) }))
}

async fn read(shared: &ListenerState, target: Target) -> Result<History, String> {
    let _turn = shared.history_slot.acquire().await.map_err(|why| why.to_string())?;
    let (file, until) = match &shared.playback {
        Some(clock) => (None, clock.now().0),
        None => (Some(flight_file(shared).await?), Ns(u64::MAX)),
    };
    let clock = shared.playback.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let mut recording = match (file, clock) {
            (Some(file), _) => Recording::from_file(file, "the flight recorder".as_ref())?,
            (None, Some(clock)) => Recording::open(clock.path())?,
            (None, None) => return Ok(History::default()),
        };
        let until = recording.span().map_or(until, |span| span.last.unix.min(until));
        history(&mut recording, until, target)
    });
    let read = reading.await.map_err(|why| why.to_string())?;
    read.map_err(|why| why.to_string())
}

/// The content of the flight recorder, as a file in memory.
async fn flight_file(shared: &ListenerState) -> Result<File, String> {
    let refused = |why: std::io::Error| format!("cannot write the history to memory: {why}");
    let file = memfd_create("history", MemfdFlags::CLOEXEC).map_err(|why| refused(why.into()))?;
    let mut file = File::from(file);
    let client = LoopbackClient::connect(&shared.requests, AccessLevel::Full).await?;
    let mut params = json!({ "last_ns": WINDOW.0 });
    loop {
        client.call(0, "flight", &params).await;
        let lines = client.next_lines().await.ok_or("the daemon is stopping")?;
        let chunk = chunk_from_line(&lines)?;
        file.write_all(&chunk.bytes()?).map_err(refused)?;
        let Some(next) = chunk.next else { return Ok(file) };
        params = serde_json::to_value(next).map_err(|why| why.to_string())?;
    }
}

fn chunk_from_line(lines: &[u8]) -> Result<FlightPart, String> {
    let line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let message = Message::from_line(line).ok_or("the answer of the daemon is malformed")?;
    if let Some(error) = message.error {
        let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
        return Err(error["message"].as_str().unwrap_or("refused").to_owned());
    }
    let result = message.result.map_or("{}", |it| it.get());
    serde_json::from_str(result).map_err(|why| why.to_string())
}

/// The last part of a recording, up to this time.
fn history(recording: &mut Recording, until: Ns, target: Target) -> Result<History, Error> {
    recording.seek(Ns(until.0.saturating_sub(WINDOW.0)))?;
    let columns = match target {
        Some(_) => PROCESS_FIELDS.map(|it| it.field().name).to_vec(),
        None => NODE_FIELDS.map(|it| it.field().name).to_vec(),
    };
    let mut history =
        History { values: vec![Vec::new(); columns.len()], columns, ..History::default() };
    let mut before: Option<Sample> = None;
    while let Some(sample) = recording.next()?.filter(|it| it.at.unix <= until) {
        let sample = only_target(sample, target);
        let rated = match &before {
            Some(before) => rates::rates(before, sample),
            None => rates::first(sample),
        };
        history.push(&rated.sample, target);
        before = Some(rated.sample);
    }
    Ok(history)
}

/// Removes what the history does not show from a sample.
fn only_target(mut sample: Sample, target: Target) -> Sample {
    sample.processes.retain(|it| Some(it.id) == target);
    if target.is_some() {
        sample.node_stats = None;
    }
    sample
}

impl History {
    fn push(&mut self, sample: &Sample, target: Target) {
        let number =
            |it: Option<monitor_model::field::FieldValue<'_>>| it.and_then(|it| it.as_f64());
        let values: Vec<Option<f64>> = match (sample.processes.first(), &sample.node_stats) {
            (Some(it), _) => PROCESS_FIELDS.map(|field| number(it.row.value(field))).to_vec(),
            (None, Some(it)) if target.is_none() => {
                NODE_FIELDS.map(|field| number(it.row.value(field))).to_vec()
            }
            // Not started yet, or ended.
            _ => return,
        };
        self.t.push(sample.at.unix.seconds());
        self.values.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::Backend as _;
    use monitor_backends::canned::Canned;
    use monitor_model::read_spec::ReadSpec;
    use monitor_recording::{Existing, Header, Writer};

    const WORLD: &str = include_str!("../../../../../tests/fixture/screen/world.txt");

    #[test]
    fn histories_of_a_process_and_of_the_node_have_rates() {
        let path = std::env::temp_dir().join(format!("monitor-history-{}", std::process::id()));
        let header = Header { every_ns: 1_000_000_000, ..Header::default() };
        let mut writer = Writer::create(&path, Existing::Replace, &header).unwrap();
        let want = ReadSpec { threads: true, ..ReadSpec::everything() };
        let mut backend = Canned::scripted(WORLD).unwrap();
        let samples: Vec<Sample> = (0..20).map(|_| backend.read(&want).unwrap()).collect();
        for it in &samples {
            writer.append(it).unwrap();
        }
        writer.finish().unwrap();
        let mut recording = Recording::from_file(File::open(&path).unwrap(), &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let id = samples[0].processes.iter().find(|it| it.id.pid.0 == 301).unwrap().id;
        let until = samples[10].at.unix;
        let it = history(&mut recording, until, Some(id)).unwrap();
        assert_eq!((it.t.len(), it.t[10]), (11, until.seconds()));
        let cpu = &it.values[0];
        assert!(cpu[0].is_none() && cpu[1..].iter().all(|it| (it.unwrap() - 98.0).abs() < 0.01));
        let node = history(&mut recording, until, None).unwrap();
        assert_eq!((node.columns[0], node.t.len()), ("cpu_user_percent", 11));
    }

    #[test]
    fn a_query_names_a_process_with_its_start_or_the_node() {
        assert_eq!(target_from_query(""), Ok(None));
        let id = Identity { pid: Pid(7), start: Ns(5) };
        assert_eq!(target_from_query("pid=7&start=5"), Ok(Some(id)));
        assert!(
            target_from_query("pid=x&start=5").is_err()
                && target_from_query("pid=7&start=x").is_err()
        );
    }
}
