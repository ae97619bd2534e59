//! `time` of `monitor when --nodes`: how long calls take on all nodes together.
//!
//! In: the functions. Out: the requests that time their calls on a node, in the kernel, and send
//! the times once a second; of all nodes the sum, and the rows of the summary. Times are counted in
//! the buckets of the kernel, so that the sum of nodes is that of their calls, exactly.

use super::event::WhenEvent;
use super::show::SummaryRow;
use monitor_event::tap::Edge;
use monitor_model::Ns;
use monitor_model::histogram::{Histogram, Percentiles};
use monitor_omis::{Reply, Value};
use std::collections::BTreeMap;

/// The request that a reading triggers once a second, its action, which sends the times, and the
/// request that starts the readings.
const TICKS: u32 = 10;
const SENDS: u32 = 11;
const STARTS: u32 = 12;
/// The first request of a function: each has five numbers.
const FIRST: u32 = 20;
const NUMBERS: u32 = 5;
/// The bits of `cnt_read`: the number of times, and the times by bucket.
const FLAGS: u32 = 1 << 2 | 1 << 11;
/// Values of an instrument in its result.
const READ_VALUES: usize = 3;

/// The calls of some functions, timed on nodes.
pub struct TimedCalls {
    edge: Edge,
    functions: Vec<String>,
    nodes: BTreeMap<String, NodeTimes>,
}

/// The times of a node, of each function.
#[derive(Default)]
struct NodeTimes {
    /// Those of the sessions before this one.
    before: Vec<Histogram>,
    last: Vec<Histogram>,
    /// The number of the last line.
    seq: u64,
    /// Whether the times came since they were last asked for.
    is_new: bool,
}

impl TimedCalls {
    /// Those of an event; `None` if it is no call.
    pub fn from_event(event: &WhenEvent) -> Option<Self> {
        let WhenEvent::Call(edge, functions) = event else { return None };
        Some(Self { edge: *edge, functions: functions.clone(), nodes: BTreeMap::new() })
    }

    /// The requests of a node, one a line.
    pub fn lines(&self) -> Vec<String> {
        let of_function = |(index, function): (u32, &String)| {
            let (timer, function) = (timer(index), Value::from(function.as_str()));
            let [create, start, starts, stop, stops] =
                [0, 1, 2, 3, 4].map(|at| FIRST + NUMBERS * index + at);
            [
                format!("{create} [0] cnt_create({timer},\"thread_timer\",\"\")"),
                format!(
                    "{start} [0] start_lib_call([],{function}): \
                     {starts} [0] cnt_start({timer},$thread,$time)"
                ),
                format!(
                    "{stop} [0] end_lib_call([],{function}): \
                     {stops} [0] cnt_stop({timer},$thread,$time)"
                ),
                format!("{create} [0] enable({stop}); {create} [0] enable({start})"),
            ]
        };
        let timers: Vec<String> =
            (0..).zip(&self.functions).map(|(index, _)| timer(index).to_string()).collect();
        let timers = timers.join(",");
        let ticks = [
            format!("{TICKS} [0] mon_sampled(\"when\"): {SENDS} [0] cnt_read([{timers}],{FLAGS})"),
            format!("{STARTS} [0] enable({TICKS})"),
            format!("{STARTS} [0] mon_start(\"when\",\"node\",[\"load1\"],1)"),
        ];
        (0..).zip(&self.functions).flat_map(of_function).chain(ticks).collect()
    }

    /// Takes the times of a node from a reply, if it has some.
    pub fn add(&mut self, (node, seq): (&str, u64), reply: &Reply) {
        let mut of_action = reply.0.iter().filter(|it| it.id.0 == SENDS.into());
        let Some(answer) = of_action.find(|it| it.status.is_success()) else { return };
        let Some(read) = answer.results.first().and_then(Value::list) else { return };
        let times: Vec<Histogram> = read
            .chunks(READ_VALUES)
            .map(|it| it.last().map(histogram).unwrap_or_default())
            .collect();
        let of_node = self.nodes.entry(node.to_owned()).or_default();
        // Lines are counted from 0 again when a node begins again, and so are its times.
        if seq < of_node.seq {
            add_all(&mut of_node.before, &std::mem::take(&mut of_node.last));
        }
        (of_node.seq, of_node.last, of_node.is_new) = (seq, times, true);
    }

    /// From now on new times are awaited of all nodes.
    pub fn await_new(&mut self) {
        self.nodes.values_mut().for_each(|it| it.is_new = false);
    }

    /// Whether a node has sent its times since then.
    pub fn has_new(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|it| it.is_new)
    }

    /// The number of calls of each node.
    pub fn n_calls(&self) -> impl Iterator<Item = (&str, u64)> {
        let n = |it: &NodeTimes| it.total().iter().map(Histogram::count).sum();
        self.nodes.iter().map(move |(node, it)| (node.as_str(), n(it)))
    }

    /// The rows of the summary: of each function, the calls of all nodes.
    pub fn rows(&self) -> Vec<SummaryRow> {
        let mut sum = Vec::new();
        self.nodes.values().for_each(|it| add_all(&mut sum, &it.total()));
        let verb = if self.edge == Edge::Start { "call" } else { "return" };
        let row = |(index, function): (usize, &String)| {
            let all = sum.get(index);
            let times = all.and_then(|it| Percentiles::default().compute(it, [50.0, 99.0]));
            let what = format!("{verb} {function}");
            SummaryRow { what, count: all.map(Histogram::count), times }
        };
        self.functions.iter().enumerate().map(row).collect()
    }
}

impl NodeTimes {
    fn total(&self) -> Vec<Histogram> {
        let mut sum = self.before.clone();
        add_all(&mut sum, &self.last);
        sum
    }
}

/// The instrument of a function.
fn timer(index: u32) -> Value {
    Value::from(format!("when-{index}").as_str())
}

/// Adds histograms, each to that of the same function.
fn add_all(sum: &mut Vec<Histogram>, more: &[Histogram]) {
    sum.resize(sum.len().max(more.len()), Histogram::default());
    sum.iter_mut().zip(more).for_each(|(sum, more)| sum.merge(more));
}

/// The histogram of pairs: the longest time of a bucket, and their number.
fn histogram(buckets: &Value) -> Histogram {
    let mut times = Histogram::default();
    for pair in buckets.list().unwrap_or_default().chunks(2) {
        if let [largest, count] = pair
            && let (Some(largest), Some(count)) = (largest.integer(), count.integer())
        {
            times.record_many(Ns(largest), count);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    fn timed(text: &str) -> TimedCalls {
        TimedCalls::from_event(&WhenEvent::from_text(text).expect("an event")).expect("calls")
    }

    #[test]
    fn calls_are_timed_by_valid_requests() {
        let lines = timed("call open,libc:read@GLIBC_2.2.5").lines();
        for line in &lines {
            let read = parse::request(line.as_bytes(), Dialect::Extended);
            assert!(read.is_ok(), "{line}: {read:?}");
        }
        assert_eq!(lines.len(), 11);
        let end = WhenEvent::from_text("end").expect("an event");
        assert!(TimedCalls::from_event(&end).is_none());
    }

    #[test]
    fn the_times_of_nodes_are_added_exactly() {
        let mut times = timed("call f,g");
        let mut add = |node: &str, seq: u64, text: &str| {
            let reply = format!("11 [0] cnt_read(0,[{text}])");
            times.add((node, seq), &parse::reply(reply.as_bytes()).expect("a reply"));
        };
        // Each reply has all times so far.
        add("n1", 7, r#""when-0",1,[1151,1],"when-1",0,[]"#);
        add("n1", 8, r#""when-0",3,[1151,2,9215,1],"when-1",1,[2047,1]"#);
        add("n2", 7, r#""when-0",1,[9215,1],"when-1",0,[]"#);
        // It begins again.
        add("n2", 6, r#""when-0",2,[1151,2],"when-1",0,[]"#);
        let rows = times.rows();
        let row = |at: usize| (rows[at].what.as_str(), rows[at].count, rows[at].times);
        assert_eq!(row(0), ("call f", Some(6), Some([Ns(1151), Ns(9215)])));
        assert_eq!(row(1), ("call g", Some(1), Some([Ns(2047), Ns(2047)])));
        assert_eq!(times.n_calls().collect::<Vec<_>>(), [("n1", 4), ("n2", 3)]);
        assert!(times.has_new("n1"));
        times.await_new();
        assert!(!times.has_new("n1") && !times.has_new("n3"));
    }

    #[test]
    fn without_a_reading_nothing_is_counted() {
        let mut times = timed("return f");
        let other = parse::reply(b"3 [0] print(0,[7])").expect("a reply");
        times.add(("n1", 1), &other);
        let [row] = &times.rows()[..] else { panic!("one row") };
        assert_eq!((row.what.as_str(), row.count, row.times), ("return f", None, None));
    }
}
