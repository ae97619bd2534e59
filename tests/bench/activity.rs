//! Cost follows activity: a pass over all processes, of which 100 are active, with the top 50
//! printed, beside an empty iterator over the same processes. `MONITOR_BENCH_PROCESSES=1000` stops
//! at that number: 20,000 processes take a minute to start, and a machine of their own.

use crate::load::{Sleepers, processes};
use crate::measure::{median, thread_ns};
use crate::snapshot::Empty;
use crate::verdict::{Bar, line};
use monitor_format::{Layout, OutputFormat, Paint, Viewport};
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::read_spec::ReadSpec;
use monitor_model::scope::Scope;
use monitor_sampling::filter::Filter;
use monitor_sampling::order::{Direction, Order};
use monitor_sampling::pipeline::{FrameBuilder, SampleReader};
use monitor_sampling::select_rows::RowSelector;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

const ACTIVE: usize = 100;
const ROUNDS: usize = 31;

/// Prints CPU microseconds of a pass at several numbers of processes.
pub fn run() {
    let mut active = Active::start();
    let mut before: Option<Costs> = None;
    let most = std::env::var("MONITOR_BENCH_PROCESSES").ok().and_then(|it| it.parse().ok());
    let totals = [1000, 5000, 20_000].into_iter();
    for total in totals.filter(|total| *total <= most.unwrap_or(usize::MAX)) {
        let _sleepers = Sleepers::up_to(total);
        let now = Costs::measure(&mut active);
        now.print(if total == 1000 { Bar::AtMost(1.5) } else { Bar::None });
        if let Some(before) = before.replace(now) {
            let more = (now.pass - before.pass) / (now.n - before.n);
            let step = (now.empty - before.empty) / (now.n - before.n);
            line(
                "one more idle process / a step of the empty iterator",
                more / step,
                "x",
                Bar::None,
            );
        }
    }
}

/// CPU microseconds at a number of processes.
#[derive(Clone, Copy)]
struct Costs {
    n: f64,
    empty: f64,
    pass: f64,
}

impl Costs {
    fn measure(active: &mut Active) -> Self {
        let (mut empty, mut pass) = (Empty::load(), Pass::open());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            active.run_once();
            first.push(timed(|| empty.pass()));
            second.push(timed(|| pass.run()));
        }
        Self { n: processes() as f64, empty: median(first), pass: median(second) }
    }

    fn print(&self, bar: Bar) {
        let n = self.n;
        line(
            &format!("{n} processes, {ACTIVE} active: empty iterator"),
            self.empty,
            "us",
            Bar::None,
        );
        line("a pass with the top 50 printed", self.pass, "us", Bar::None);
        line("pass / empty iterator", self.pass / self.empty, "x", bar);
    }
}

/// CPU microseconds of this thread.
fn timed(mut work: impl FnMut()) -> f64 {
    let before = thread_ns();
    work();
    (thread_ns() - before) / 1e3
}

/// What `watch --top 50` does for each table.
struct Pass {
    reader: SampleReader,
    frames: FrameBuilder,
    text: Vec<u8>,
}

impl Pass {
    fn open() -> Self {
        let order = Order { field: F::CpuPercent, direction: Direction::Descending };
        let selector = RowSelector::new(Filter::default(), Some(order), Some(50));
        let columns = [F::Pid, F::Uid, F::State, F::Threads, F::CpuPercent, F::RunDelayPercent];
        let columns = [&columns[..], &[F::Rss, F::ReadRate, F::WrittenRate, F::Comm]].concat();
        let layout = Layout { processes: columns, ..Layout::all(Scope::Processes) };
        let format = OutputFormat::Table.writer(layout, Paint::Plain);
        let spec = ReadSpec { processes: true, ..ReadSpec::default() };
        let backend: Box<dyn monitor_backend::Backend> = Box::new(Ebpf::open(&[], 0).unwrap());
        Self {
            reader: SampleReader::new(backend, spec, false),
            frames: FrameBuilder::new(selector, None, false, format),
            text: Vec::new(),
        }
    }

    fn run(&mut self) {
        let sample = self.reader.read().unwrap();
        let _ = self.frames.rate(sample, None);
        self.text.clear();
        let SampleReader { backend, spec, .. } = &mut self.reader;
        let room = Viewport { columns: 80, lines: None };
        let matched = self.frames.write((&mut **backend, spec), (None, room), &mut self.text);
        assert!(matched >= ACTIVE && self.text.len() > 50 * 10);
    }
}

/// Processes that each return a byte.
struct Active(Vec<Child>);

impl Active {
    fn start() -> Self {
        let pipes = |_| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "cat"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        };
        Self((0..ACTIVE).map(pipes).collect())
    }

    /// Each runs once, and sleeps again.
    fn run_once(&mut self) {
        let mut byte = [7];
        for child in &mut self.0 {
            child.stdin.as_mut().unwrap().write_all(&byte).unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
