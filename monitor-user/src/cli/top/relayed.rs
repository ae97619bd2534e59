//! News from the daemon of this node, for the screen.
//!
//! A task of its own asks and listens, so that a key never interrupts an answer. What is asked for
//! anew replaces the series before; a daemon that goes away is waited for, and both are said.

use crate::client::{Client, Error, Request, Series, Target, Told as Event};
use crate::format::human;
use crate::meter::examination::Entry;
use crate::model::id::Ns;
use crate::model::sample::Process;
use crate::serve::tui::demand::Demand;
use crate::serve::tui::feed::{Cost, Feed, Inside, News, Told};
use crate::sys::{clock, memory};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// News that may wait.
const WAITING: usize = 4;
/// How old the daemon's account of itself may be.
const STATUS_WITHIN: Ns = Ns(5_000_000_000);

/// A daemon.
pub struct Relayed {
    demand: watch::Sender<Demand>,
    told: mpsc::Receiver<Told>,
}

impl Relayed {
    /// Asks a daemon for this. Needs a running event loop.
    pub fn new(client: Client, demand: Demand) -> Self {
        let (demand, demands) = watch::channel(demand);
        let (sender, told) = mpsc::channel(WAITING);
        let asker = Asker { client, demands, sender, used: None, own: None };
        let _task = tokio::spawn(asker.run());
        Self { demand, told }
    }
}

impl Feed for Relayed {
    fn demand(&mut self, demand: &Demand) {
        let _ = self.demand.send(demand.clone());
    }

    async fn next(&mut self) -> Told {
        let over = || Told::Ended("the daemon tells no more".into());
        self.told.recv().await.unwrap_or_else(over)
    }
}

/// Asks and listens.
struct Asker {
    client: Client,
    demands: watch::Receiver<Demand>,
    sender: mpsc::Sender<Told>,
    /// What we had used at a time.
    used: Option<(Ns, Ns)>,
    own: Option<Account>,
}

/// What the daemon told of itself.
struct Account {
    at: Ns,
    cpu: Ns,
    cost: Cost,
    probes: Arc<[Entry]>,
}

/// Why a series is left.
enum Left {
    /// Something else is wanted.
    Demand,
    /// Nobody listens any more.
    Alone,
}

impl Asker {
    async fn run(mut self) {
        loop {
            let demand = self.demands.borrow_and_update().clone();
            match self.follow(&demand).await {
                Ok(Left::Demand) => {}
                Ok(Left::Alone) => return,
                Err(error) => {
                    let _ = self.sender.send(Told::Ended(error.to_string())).await;
                    return;
                }
            }
        }
    }

    /// Tells of one series until something else is wanted.
    async fn follow(&mut self, demand: &Demand) -> Result<Left, Error> {
        if demand.frozen {
            return Ok(self.changed().await);
        }
        let mut series = self.client.start(&demand.request()).await?;
        let mut focus = match focus(demand) {
            Some(request) => Some(self.client.start(&request).await?),
            None => None,
        };
        let mut about = None;
        loop {
            tokio::select! {
                biased;
                left = changed(&mut self.demands) => return Ok(left),
                event = of(focus.as_mut()) => match event? {
                    Some(process) => about = Some(*process),
                    // It has ended: what is known of it stays.
                    None => focus = None,
                },
                event = series.next() => {
                    let Some(event) = event? else { return Ok(self.changed().await) };
                    let Some(told) = self.told(event, demand, about.clone()).await? else {
                        continue;
                    };
                    if self.sender.send(told).await.is_err() {
                        return Ok(Left::Alone);
                    }
                }
            }
        }
    }

    async fn changed(&mut self) -> Left {
        changed(&mut self.demands).await
    }

    /// What an event of the series is to the screen.
    async fn told(
        &mut self,
        event: Event,
        demand: &Demand,
        focus: Option<Process>,
    ) -> Result<Option<Told>, Error> {
        let event = match event {
            Event::Away => {
                let text = "the daemon went away; waiting for it to come back";
                return Ok(Some(Told::Said(text.into())));
            }
            Event::Back(after) => {
                let mut text = String::from("the daemon was away for ");
                human::span(after.as_nanos() as f64, &mut text);
                return Ok(Some(Told::Said(text + ": of that time nothing is known")));
            }
            Event::Event(event) => event,
        };
        if let Some(reason) = event.ended {
            let why = event.message.clone().unwrap_or_else(|| format!("{reason:?}"));
            return Ok(Some(Told::Ended(format!("the daemon ended the series: {why}"))));
        }
        let garbled = |error: serde_json::Error| Error::Garbled { why: error.to_string() };
        let Some(mut rates) = event.rates().map_err(garbled)? else { return Ok(None) };
        rates.sample.relayed = true;
        // The same node: its clock since boot is ours.
        let now = clock::now();
        rates.sample.at.boot = now.boot.since(now.unix.since(rates.sample.at.unix));
        let at = rates.sample.at.boot;
        let probes = self.account(at).await?;
        let mut cost = vec![self.cost(at)];
        cost.extend(self.own.as_ref().map(|own| own.cost));
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let inside = Inside::of(demand.focus);
        let news = News { rates, matched, focus, inside, cost, probes, place: None };
        Ok(Some(Told::News(Arc::new(news))))
    }

    fn cost(&mut self, at: Ns) -> Cost {
        let cpu = clock::own_cpu();
        let before = self.used.replace((at, cpu)).filter(|(before, _)| at > *before);
        let percent = |(before, used): (Ns, Ns)| share(cpu.since(used), at.since(before));
        Cost { who: "self", cpu_percent: before.map(percent), rss_bytes: memory::resident_bytes() }
    }

    /// Asks the daemon what it costs, and how its probes are, now and then.
    async fn account(&mut self, at: Ns) -> Result<Arc<[Entry]>, Error> {
        if let Some(own) = self.own.as_ref().filter(|own| at.since(own.at) < STATUS_WITHIN) {
            return Ok(Arc::clone(&own.probes));
        }
        let status = self.client.status().await?;
        let examination = self.client.probes().await?;
        let before = self.own.as_ref().filter(|own| at > own.at);
        let cpu = Ns(status.cpu_ns);
        let cost = Cost {
            who: "daemon",
            cpu_percent: before.map(|own| share(cpu.since(own.cpu), at.since(own.at))),
            rss_bytes: Some(status.rss_bytes),
        };
        let probes: Arc<[Entry]> = examination.capabilities.into();
        self.own = Some(Account { at, cpu, cost, probes: Arc::clone(&probes) });
        Ok(probes)
    }
}

/// Hundredths of a processor.
fn share(used: Ns, of: Ns) -> f64 {
    used.0 as f64 / of.0 as f64 * 100.0
}

async fn changed(demands: &mut watch::Receiver<Demand>) -> Left {
    match demands.changed().await {
        Ok(()) => Left::Demand,
        Err(_) => Left::Alone,
    }
}

/// What is asked for of the one process whose details are shown: all that is known of it.
fn focus(demand: &Demand) -> Option<Request> {
    let (id, _) = demand.focus?;
    Some(Request {
        part: "proc".into(),
        every_ns: Some(Ns::from(demand.every).0),
        targets: vec![Target::Pid { pid: id.pid.0.into(), node: None }],
        threads: demand.threads(),
        capabilities: demand.capabilities(),
        ..Request::default()
    })
}

/// The next of one process; nothing, when it has ended.
async fn of(series: Option<&mut Series>) -> Result<Option<Box<Process>>, Error> {
    let Some(series) = series else { return std::future::pending().await };
    loop {
        let event = match series.next().await? {
            Some(Event::Event(event)) => event,
            Some(_) => continue,
            None => return Ok(None),
        };
        let garbled = |error: serde_json::Error| Error::Garbled { why: error.to_string() };
        let process =
            event.rates().map_err(garbled)?.and_then(|it| it.sample.processes.into_iter().next());
        match process {
            Some(process) => return Ok(Some(Box::new(process))),
            None if event.ended.is_some() => return Ok(None),
            None => {}
        }
    }
}
