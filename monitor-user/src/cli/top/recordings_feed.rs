//! Recordings of many nodes as one: roll-ups of what they have at one time.
//!
//! In: the recordings, keys that go back and forward. Out: for each step of time the roll-up that
//! a gateway would have made then, by the realtime clocks of the nodes. A node whose last sample is
//! older than three of its periods, and than three seconds, is late: it is in no sum.

use super::recorded_node::RecordedNode;
use crate::cli::exit::Failure;
use monitor_model::Ns;
use monitor_protocol::cluster::MemberState;
use monitor_protocol::rollup::{ClusterRollup, NodeRollup, NodeSummary, RollupQuery};
use monitor_recording::Error;
use monitor_server::cluster::{
    KnownRecord, LastRecord, RollupViewer, join_records, node_summary, rollup_for,
};
use monitor_tui::cluster::{ClusterFeed, ClusterFeedEvent, OpenJob, PlaybackSpeed};
use monitor_tui::feed_source::PlaybackPos;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Periods of one key, as on the screen of a node.
const STEP: u64 = 10;
/// From this age on a record is late, as one of a node that publishes.
const LATE: Ns = Ns(3_000_000_000);
/// The same in periods of the recording.
const LATE_PERIODS: u64 = 3;

/// A source of roll-ups.
pub struct RecordingsFeed {
    /// Nodes without a recording have none.
    nodes: BTreeMap<String, Option<RecordedNode>>,
    query: RollupQuery,
    first: Ns,
    last: Ns,
    /// The shortest period of the recordings.
    period: Ns,
    /// The time that is shown.
    at: Ns,
    speed: PlaybackSpeed,
    /// A frame is due at once, for the time that is shown.
    frame_due: bool,
    ended: bool,
    due: Instant,
}

impl RecordingsFeed {
    /// Opens the recordings of nodes; those without a file are listed without a record.
    ///
    /// # Errors
    /// None has a file, or one cannot be read.
    pub fn open(files: BTreeMap<String, Option<PathBuf>>) -> Result<Self, Failure> {
        let mut nodes = BTreeMap::new();
        for (node, path) in files {
            let node_of = |path: PathBuf| RecordedNode::open(&path);
            nodes.insert(node, path.map(node_of).transpose()?);
        }
        let all = || nodes.values().flatten();
        let none = || Failure::usage("--nodes: no node of the set has a recording");
        let first = all().map(|it| it.span().first.unix).min().ok_or_else(none)?;
        let last = all().map(|it| it.span().last.unix).max().ok_or_else(none)?;
        let period = all().map(RecordedNode::every).min().ok_or_else(none)?;
        let speed = PlaybackSpeed { every: Duration::from_nanos(period.0), is_frozen: false };
        let mut feed = Self {
            nodes,
            query: RollupQuery::default(),
            first,
            last,
            period,
            at: first,
            speed,
            frame_due: true,
            ended: false,
            due: Instant::now(),
        };
        feed.go_to(first)?;
        Ok(feed)
    }

    /// The period of the recordings.
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period.0)
    }

    /// The time that is shown, and the recording of a node.
    pub fn recording(&self, node: &str) -> Option<(Ns, &Path)> {
        Some((self.at, self.nodes.get(node)?.as_ref()?.path()))
    }

    /// Shows a time.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub fn go_to(&mut self, unix: Ns) -> Result<(), Error> {
        self.at = Ns(unix.0.clamp(self.first.0, self.last.0));
        (self.frame_due, self.ended) = (true, false);
        self.nodes.values_mut().flatten().try_for_each(|it| it.go_to(self.at))
    }

    fn frame(&mut self) -> (ClusterRollup, PlaybackPos) {
        let at = self.at;
        let mut records: Vec<(&str, &NodeRollup)> = Vec::new();
        let mut summaries: Vec<NodeSummary> = Vec::new();
        for (node, recorded) in &mut self.nodes {
            let late = recorded
                .as_ref()
                .map_or(LATE, |it| LATE.max(Ns(it.every().0.saturating_mul(LATE_PERIODS))));
            let record = recorded.as_mut().and_then(RecordedNode::record);
            let last = record.map(|(record, taken)| {
                let age = at.since(taken);
                if age < late {
                    records.push((node, record));
                }
                LastRecord { age, record: KnownRecord::Read(record), lost: 0 }
            });
            summaries.push(node_summary((node, MemberState::Up), last, late));
        }
        let rollup = join_records(("", at), summaries, &records);
        let rollup = rollup_for(&RollupViewer::All, &self.query, &rollup);
        let since = |it: Ns| Duration::from_nanos(it.since(self.first).0);
        (rollup, PlaybackPos { unix: at, elapsed: since(at), length: since(self.last) })
    }

    fn step(&mut self) -> Result<(), Error> {
        self.at = Ns(self.at.0.saturating_add(self.period.0).min(self.last.0));
        self.nodes.values_mut().flatten().try_for_each(|it| it.advance(self.at))
    }
}

impl ClusterFeed for RecordingsFeed {
    fn set_job(&mut self, job: Option<&OpenJob>) {
        self.query = RollupQuery { job: job.map(|job| job.name.clone()) };
        self.frame_due = true;
    }

    async fn next(&mut self) -> ClusterFeedEvent {
        if !self.frame_due {
            match self.speed.is_frozen || self.ended {
                true => std::future::pending().await,
                false => sleep_until(self.due).await,
            }
            if self.at >= self.last {
                self.ended = true;
                return ClusterFeedEvent::Message("end of the recordings: [ goes back".into());
            }
            if let Err(error) = self.step() {
                return ClusterFeedEvent::Ended(error.to_string());
            }
        }
        self.frame_due = false;
        self.due = Instant::now() + self.speed.every;
        let (rollup, position) = self.frame();
        ClusterFeedEvent::Recorded(Arc::new(rollup), position)
    }

    fn seek(&mut self, steps: i64) -> Result<(), String> {
        let far = self.period.0.saturating_mul(STEP).saturating_mul(steps.unsigned_abs());
        let to = match steps < 0 {
            true => self.at.0.saturating_sub(far),
            false => self.at.0.saturating_add(far),
        };
        self.go_to(Ns(to)).map_err(|error| error.to_string())
    }

    fn set_speed(&mut self, speed: PlaybackSpeed) {
        self.due = self.due.min(Instant::now() + speed.every);
        self.speed = speed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::{NodeField, ProcessField, Row};
    use monitor_model::{Identity, Instant as SampleTime, Node, Pid, Process, Sample};
    use monitor_protocol::rollup::RecordState;
    use monitor_recording::{Existing, Header, Writer};

    const SECOND: u64 = 1_000_000_000;

    /// Files that are removed with the test.
    struct Files(BTreeMap<String, Option<PathBuf>>);

    impl Drop for Files {
        fn drop(&mut self) {
            for path in self.0.values().flatten() {
                let _it_may_be_gone = std::fs::remove_file(path);
            }
        }
    }

    /// A process of a job that uses so much of a processor.
    fn sample(second: u64, cpu_percent: u64) -> Sample {
        let mut row = Row::default();
        row.set(ProcessField::Uid, 1000);
        row.set(ProcessField::CpuTime, second * SECOND / 100 * cpu_percent);
        row.set(ProcessField::Rss, 4096);
        let mut process =
            Process { id: Identity { pid: Pid(7), start: Ns(1) }, row, ..Process::default() };
        process.text.user = Some("anna".into());
        process.text.job = Some("slurm:77".into());
        let mut stats = Node::default();
        stats.row.set(NodeField::OnlineCpus, 4);
        let time = Ns(second * SECOND);
        Sample {
            at: SampleTime { boot: time, unix: time },
            processes: vec![process],
            node_stats: Some(stats),
            ..Sample::default()
        }
    }

    /// Recordings of n1 from second 10 to 29, and of n2 from 20 to 39; n3 has none.
    fn files(test: &str) -> Files {
        let write = |node: &str, from: u64, cpu_percent| {
            let name = format!("monitor-{test}-{}.{node}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let header = Header { every_ns: SECOND, ..Header::default() };
            let mut writer = Writer::create(&path, Existing::Replace, &header).expect("a file");
            for second in from..from + 20 {
                writer.append(&sample(second, cpu_percent)).expect("there is room");
            }
            let _bytes = writer.finish().expect("there is room");
            (node.to_owned(), Some(path))
        };
        Files([write("n1", 10, 50), write("n2", 20, 25), ("n3".to_owned(), None)].into())
    }

    /// The time that is shown, and the states of the nodes.
    fn states(feed: &mut RecordingsFeed) -> (u64, Vec<RecordState>) {
        let (rollup, position) = feed.frame();
        assert_eq!(position.unix.0, rollup.unix_ns);
        (rollup.unix_ns / SECOND, rollup.nodes.iter().map(|it| it.record).collect())
    }

    #[tokio::test]
    async fn recordings_of_nodes_are_one_time_line() {
        use RecordState::{Current, Late, None};
        let files = files("time-line");
        let mut feed = RecordingsFeed::open(files.0.clone()).expect("recordings");
        feed.set_speed(PlaybackSpeed { every: Duration::ZERO, is_frozen: false });
        assert_eq!(states(&mut feed), (10, vec![Current, None, None]));
        let mut shown = Vec::new();
        while let ClusterFeedEvent::Recorded(rollup, _) = feed.next().await {
            shown.push(rollup);
        }
        assert_eq!(shown.len(), 30);
        let at = |second: usize| &shown[second - 10];
        let cpu = |second: usize| at(second).jobs.first().and_then(|it| it.usage.cpu_percent);
        // The first sample has no rates; of two nodes the job is one.
        assert_eq!(
            (cpu(10), cpu(11), cpu(25), cpu(39)),
            (Option::None, Some(50.0), Some(75.0), Some(25.0))
        );
        let both = at(25);
        assert_eq!((both.jobs[0].nodes.as_str(), both.users[0].name.as_str()), ("n[1-2]", "anna"));
        assert_eq!(both.nodes[0].totals.and_then(|it| it.online_cpus), Some(4));
        let records: Vec<_> = at(35).nodes.iter().map(|it| it.record).collect();
        assert_eq!(records, [Late, Current, None]);
    }

    #[tokio::test]
    async fn it_goes_back_and_a_job_that_is_opened_has_its_nodes() {
        let files = files("back");
        let mut feed = RecordingsFeed::open(files.0.clone()).expect("recordings");
        feed.seek(100).expect("the end");
        assert_eq!(states(&mut feed).0, 39);
        feed.seek(-1).expect("ten periods back");
        let job = OpenJob { name: "slurm:77".into(), uid: Some(1000) };
        feed.set_job(Some(&job));
        let (rollup, _) = feed.frame();
        assert_eq!(rollup.unix_ns, 29 * SECOND);
        // Rates are those of the time, as when it was reached by playing.
        let usage: Vec<_> = rollup.jobs[0]
            .by_node
            .iter()
            .map(|it| (it.node.as_str(), it.usage.cpu_percent))
            .collect();
        assert_eq!(usage, [("n1", Some(50.0)), ("n2", Some(25.0))]);
        feed.seek(-100).expect("the beginning");
        assert_eq!(states(&mut feed).0, 10);
        assert_eq!(feed.recording("n3"), None);
        assert_eq!(feed.recording("n2").map(|it| it.0), Some(Ns(10 * SECOND)));
    }

    #[test]
    fn without_any_recording_there_is_nothing_to_show() {
        let none = [("n1".to_owned(), None)].into();
        let failure = RecordingsFeed::open(none).err().expect("a failure");
        assert_eq!(failure.message, "--nodes: no node of the set has a recording");
    }
}
