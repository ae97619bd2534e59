//! Library calls of this node's processes: taps of the kernel, and what they tell.
//!
//! In: which taps are wanted, and which processes matter. Out: calls as occurrences. Loaded when
//! the first tap is wanted, so that who never asks for a call pays nothing.

use super::Live;
use super::marked::Marked;
use crate::backend::ebpf::rule::KernelRules;
use crate::backend::procfs;
use crate::backend::select::Choice;
use crate::model::id::{Identity, Ns, Pid};
use crate::omis::{Status, Text, Value};
use crate::probe::description::Descriptions;
use crate::probe::description::call::Kind;
use crate::probe::description::told::Told as Meaning;
use crate::probe::tap::heard::Heard;
use crate::probe::tap::plan::Edge;
use crate::probe::tap::{Called, News, Refusal as TapRefusal, Tap, Taps};
use crate::service::desk::{Occurrence, Topic};
use crate::service::ground::Happening;
use crate::service::ground::call::{ARRIVAL, Calls, RECEIPT};
use crate::service::ground::reading;
use crate::service::outcome::{Refusal, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How soon is looked for calls where nothing wakes.
const LOOK: Ns = Ns(5_000_000);
/// Most calls that are taken at once; the rest is taken at once after it.
const MOST: usize = 4096;
/// Descriptions that people add.
const FOLDER: &str = "/etc/monitor/calls";

/// What is known of calls.
#[derive(Default)]
pub(super) struct Listening {
    taps: Option<Taps>,
    processes: BTreeMap<Pid, Identity>,
    n_lost: u64,
    looked: Ns,
    /// While somebody waits for the receipt of marked messages.
    marked: Option<Marked>,
}

impl Listening {
    fn taps(&mut self, choice: Choice) -> Result<&mut Taps, Refusal> {
        if self.taps.is_none() {
            if !matches!(choice, Choice::Auto | Choice::Ebpf) {
                let text = "library calls are seen by eBPF only: see monitor doctor";
                return Err(Refusal::new(Status::UNSUPPORTED, text));
            }
            let rules = KernelRules::open().map_err(reading::failed)?;
            let taps = Taps::new(Path::new("/proc"), Box::new(rules), Arc::new(descriptions()?));
            self.taps = Some(taps.map_err(reading::failed)?);
        }
        Ok(self.taps.as_mut().expect("it was made above"))
    }

    /// Exactly these are wanted.
    pub(super) fn watch(&mut self, topics: &BTreeSet<Topic>, choice: Choice) {
        let mut wanted: BTreeSet<Tap> = topics.iter().filter_map(Topic::tap).cloned().collect();
        self.marked = match topics.contains(&Topic::Received) {
            true => Some(self.marked.take().unwrap_or_default()),
            false => None,
        };
        if self.marked.is_some() {
            wanted.extend([ARRIVAL, RECEIPT].map(start));
        }
        if wanted.is_empty() && self.taps.is_none() {
            return;
        }
        // Who could not open it was told so when he defined the event.
        if let Ok(taps) = self.taps(choice) {
            taps.set(&wanted);
        }
    }

    /// These processes matter.
    pub(super) fn follow(&mut self, processes: &BTreeSet<Identity>) {
        self.processes = processes.iter().map(|id| (id.pid, *id)).collect();
        if let Some(taps) = &mut self.taps {
            taps.follow(&self.processes.keys().copied().collect());
        }
    }

    pub(super) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.taps.as_ref().and_then(Taps::wake)
    }

    pub(super) fn due(&self) -> Option<Ns> {
        let has_taps = self.taps.as_ref().is_some_and(Taps::is_set);
        has_taps.then(|| Ns(self.looked.0.saturating_add(LOOK.0)))
    }

    /// What was called since.
    pub(super) fn happened(&mut self, now: Ns) -> Vec<Happening> {
        self.looked = now;
        let Some(taps) = &mut self.taps else { return Vec::new() };
        let news = taps.news(MOST);
        let n_lost = taps.n_lost();
        let lost = n_lost.saturating_sub(self.n_lost);
        self.n_lost = n_lost;
        let mut happened: Vec<Happening> =
            news.into_iter().flat_map(|it| self.happenings(it)).collect();
        happened.extend((lost > 0).then_some(Happening::Lost(lost)));
        happened
    }

    fn happenings(&mut self, news: News) -> Vec<Happening> {
        match news {
            News::Called(it) => self.called(&it).unwrap_or_default(),
            News::Storm(tap) => {
                tracing::warn!("{} is called too often: its tap was switched off", tap.name);
                Vec::new()
            }
            // There is no other list.
            News::Other(_) => Vec::new(),
        }
    }

    /// What a call means, besides that it was made.
    fn called(&mut self, it: &Called) -> Option<Vec<Happening>> {
        let process = self.identity(it.pid)?;
        let topic = Topic::Called((*it.tap).clone());
        let mut all = vec![occurred(it, process, topic, told(process, it))];
        let Some(marked) = &mut self.marked else { return Some(all) };
        if *it.tap == start(ARRIVAL) {
            all.extend(marked.arrived(it).then_some(Happening::Lost(1)));
        } else if *it.tap == start(RECEIPT)
            && let Some(message) = marked.received(it)
        {
            let values = [message.sender, message.tag, message.mark];
            let values = values.map(|it| Told::Value(Value::from(it)));
            let told = [Told::Process(process)].into_iter().chain(values).collect();
            all.push(occurred(it, process, Topic::Received, told));
        }
        Some(all)
    }

    /// Who that is; a child that nobody has told of yet is looked up.
    fn identity(&mut self, pid: Pid) -> Option<Identity> {
        if let Some(id) = self.processes.get(&pid) {
            return Some(*id);
        }
        let start = procfs::started(pid)?;
        Some(Identity { pid, start })
    }
}

impl Calls for Live {
    fn has(&mut self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        let choice = self.choice;
        let sites =
            self.calls.taps(choice)?.check(tap, id.pid).map_err(|refusal| match refusal {
                TapRefusal::Place(error) => Refusal::from(error),
                TapRefusal::Kernel(error) => reading::failed(error),
            })?;
        for warning in sites.iter().filter_map(|site| site.pace.warning()) {
            tracing::warn!("{}: {warning}", tap.name);
        }
        Ok(())
    }
}

fn start(name: &str) -> Tap {
    Tap { name: name.to_owned(), edge: Edge::Start }
}

fn occurred(it: &Called, process: Identity, topic: Topic, told: Arc<[Told]>) -> Happening {
    let (at, thread, pc, process) = (it.at, Some(it.tid), Some(it.pc), Some(process));
    Happening::Occurred(Occurrence { topic, at, process, thread, pc, told, held: None })
}

fn descriptions() -> Result<Descriptions, Refusal> {
    let mut all = Descriptions::shipped();
    let folder = Path::new(FOLDER);
    if folder.is_dir() {
        all.add_folder(folder)?;
    }
    Ok(all)
}

/// What a call tells: the process, then its values.
fn told(process: Identity, called: &Called) -> Arc<[Told]> {
    let values = called.plan.told.iter().zip(&called.values);
    let values = values.map(|(meaning, heard)| Told::Value(value(meaning, heard)));
    [Told::Process(process)].into_iter().chain(values).collect()
}

/// A value as the language has it; an empty list where there is none.
fn value(meaning: &Meaning, heard: &Heard) -> Value {
    let Some(raw) = heard.raw else { return Value::List(Vec::new()) };
    match (&meaning.kind, &heard.text) {
        (_, Some(text)) => Value::Text(Text::from(text.clone())),
        (Kind::Number(width) | Kind::Named(_, width), None) => {
            let number = width.number(raw);
            match i64::try_from(number) {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(width.cut(raw)),
            }
        }
        _ => Value::from(raw),
    }
}
