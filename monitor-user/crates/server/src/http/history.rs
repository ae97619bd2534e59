//! What a process, or the node, did before the page was opened: of the flight recorder, or of the
//! recording that is played.
//!
//! In: the query of an address. Out: a course as JSON: times, and values by column; or why there
//! is none. A recording has all processes in full, so it is read for who sees everything. One at
//! a time is read, on a thread of its own.

use super::guest::Guest;
use super::live::{number, value};
use super::message::Message;
use super::{Shared, Sight};
use monitor_model::field::{Category, NodeField, ProcessField};
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::rates;
use monitor_model::sample::Sample;
use monitor_protocol::answer::Handed;
use monitor_recording::{Error, Recording};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;

/// How much of the past is shown: as much as the page keeps.
const LAST: Ns = Ns(300_000_000_000);
const OF_PROCESS: [ProcessField; 4] = [
    ProcessField::CpuPercent,
    ProcessField::Rss,
    ProcessField::ReadRate,
    ProcessField::WrittenRate,
];
const OF_NODE: [NodeField; 2] = [NodeField::UserPercent, NodeField::SystemPercent];

/// A course.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Course {
    /// What each list of values is.
    columns: Vec<&'static str>,
    /// Seconds since 1970.
    t: Vec<f64>,
    /// A list for each column, as long as `t`.
    values: Vec<Vec<Option<f64>>>,
    /// Why there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Of whom; of the node, if absent.
type Whose = Option<Identity>;

/// Tells it.
pub async fn told(shared: &Shared, sight: Sight, query: &str) -> Result<Vec<u8>, String> {
    let whose = whose(query)?;
    let course = match sight {
        Sight::Full => read(shared, whose).await,
        Sight::Open => Err("the past is shown to who has the token".to_owned()),
    };
    let course = course.unwrap_or_else(|why| Course { why: Some(why), ..Course::default() });
    Ok(serde_json::to_vec(&course).expect("keys are names"))
}

fn whose(query: &str) -> Result<Whose, String> {
    let Some(start) = value(query, "start") else { return Ok(None) };
    let start = start.parse().map_err(|_| format!("start={start:?}: nanoseconds since boot"))?;
    Ok(Some(Identity { pid: Pid(number(query, "pid")?), start: Ns(start) }))
}

async fn read(shared: &Shared, whose: Whose) -> Result<Course, String> {
    let _turn = shared.past.acquire().await.map_err(|why| why.to_string())?;
    let (file, until) = match &shared.dial {
        Some(dial) => (None, dial.now().0),
        None => (Some(kept(shared).await?), Ns(u64::MAX)),
    };
    let dial = shared.dial.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let mut recording = match (file, dial) {
            (Some(file), _) => Recording::of(file, "the flight recorder".as_ref())?,
            (None, Some(dial)) => Recording::open(dial.path())?,
            (None, None) => return Ok(Course::default()),
        };
        let until = recording.span().map_or(until, |span| span.last.unix.min(until));
        course(&mut recording, until, whose)
    });
    let read = reading.await.map_err(|why| why.to_string())?;
    read.map_err(|why| why.to_string())
}

/// What the flight recorder has kept, as a file in memory.
async fn kept(shared: &Shared) -> Result<File, String> {
    let refused = |why: std::io::Error| format!("no memory for what was kept: {why}");
    let file = memfd_create("history", MemfdFlags::CLOEXEC).map_err(|why| refused(why.into()))?;
    let mut file = File::from(file);
    let guest = Guest::join(shared, Sight::Full).await?;
    let mut params = json!({ "last_ns": LAST.0 });
    loop {
        guest.call(0, "flight", &params).await;
        let lines = guest.hear().await.ok_or("the service ends")?;
        let handed = handed(&lines)?;
        file.write_all(&handed.bytes()?).map_err(refused)?;
        let Some(next) = handed.next else { return Ok(file) };
        params = serde_json::to_value(next).map_err(|why| why.to_string())?;
    }
}

fn handed(lines: &[u8]) -> Result<Handed, String> {
    let line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let message = Message::of(line).ok_or("the service answers what is no answer")?;
    if let Some(error) = message.error {
        let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
        return Err(error["message"].as_str().unwrap_or("it is refused").to_owned());
    }
    let result = message.result.map_or("{}", |it| it.get());
    serde_json::from_str(result).map_err(|why| why.to_string())
}

/// The last of a recording, up to this time.
fn course(recording: &mut Recording, until: Ns, whose: Whose) -> Result<Course, Error> {
    recording.seek(Ns(until.0.saturating_sub(LAST.0)))?;
    let columns = match whose {
        Some(_) => OF_PROCESS.map(|it| it.field().name).to_vec(),
        None => OF_NODE.map(|it| it.field().name).to_vec(),
    };
    let mut course =
        Course { values: vec![Vec::new(); columns.len()], columns, ..Course::default() };
    let mut before: Option<Sample> = None;
    while let Some(sample) = recording.next()?.filter(|it| it.at.unix <= until) {
        let sample = only(sample, whose);
        let rated = match &before {
            Some(before) => rates::rates(before, sample),
            None => rates::first(sample),
        };
        course.take(&rated.sample, whose);
        before = Some(rated.sample);
    }
    Ok(course)
}

/// As much of a sample as is looked at.
fn only(mut sample: Sample, whose: Whose) -> Sample {
    sample.processes.retain(|it| Some(it.id) == whose);
    if whose.is_some() {
        sample.node_stats = None;
    }
    sample
}

impl Course {
    fn take(&mut self, sample: &Sample, whose: Whose) {
        let number = |it: Option<monitor_model::field::Value<'_>>| it.and_then(|it| it.as_f64());
        let values: Vec<Option<f64>> = match (sample.processes.first(), &sample.node_stats) {
            (Some(it), _) => OF_PROCESS.map(|field| number(it.row.value(field))).to_vec(),
            (None, Some(it)) if whose.is_none() => {
                OF_NODE.map(|field| number(it.row.value(field))).to_vec()
            }
            // It was not there yet, or not any more.
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
    use monitor_model::want::Want;
    use monitor_recording::{Existing, Header, Writer};

    const WORLD: &str = include_str!("../../../../../tests/fixture/screen/world.txt");

    #[test]
    fn the_last_of_a_process_and_of_the_node_are_told_with_their_rates() {
        let path = std::env::temp_dir().join(format!("monitor-history-{}", std::process::id()));
        let header = Header { every_ns: 1_000_000_000, ..Header::default() };
        let mut writer = Writer::create(&path, Existing::Replace, &header).unwrap();
        let want = Want { threads: true, ..Want::whole() };
        let mut backend = Canned::scripted(WORLD).unwrap();
        let samples: Vec<Sample> = (0..20).map(|_| backend.read(&want).unwrap()).collect();
        for it in &samples {
            writer.append(it).unwrap();
        }
        writer.finish().unwrap();
        let mut recording = Recording::of(File::open(&path).unwrap(), &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let id = samples[0].processes.iter().find(|it| it.id.pid.0 == 301).unwrap().id;
        let until = samples[10].at.unix;
        let it = course(&mut recording, until, Some(id)).unwrap();
        assert_eq!((it.t.len(), it.t[10]), (11, until.seconds()));
        let cpu = &it.values[0];
        assert!(cpu[0].is_none() && cpu[1..].iter().all(|it| (it.unwrap() - 98.0).abs() < 0.01));
        let node = course(&mut recording, until, None).unwrap();
        assert_eq!((node.columns[0], node.t.len()), ("cpu_user_percent", 11));
    }

    #[test]
    fn an_address_asks_for_a_process_by_its_start_or_for_the_node() {
        assert_eq!(whose(""), Ok(None));
        let id = Identity { pid: Pid(7), start: Ns(5) };
        assert_eq!(whose("pid=7&start=5"), Ok(Some(id)));
        assert!(whose("pid=x&start=5").is_err() && whose("pid=7&start=x").is_err());
    }
}
