//! News from the daemon of this node, for the screen.
//!
//! A task of its own asks and listens, so that a key never interrupts an answer. What is asked for
//! anew replaces the series before; a daemon that goes away is waited for, and both are said.

use monitor_client::{Client, Error, Series, Told as Event};
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_model::request::Request;
use monitor_model::sample::Process;
use monitor_sampling::examination::Entry;
use monitor_sys::clock;
use monitor_tui::demand::Demand;
use monitor_tui::feed::{Cost, Feed, Inside, News, Told};
use monitor_tui::own::{Own, share};
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
        let _task = tokio::spawn(Asker::new(client, demands, sender).run());
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
    /// Of the table, and of the process whose details are shown: what was asked for, and by whom
    /// it is answered.
    table: Option<(Request, Series)>,
    focus: Option<(Request, Series)>,
    /// What was told of that process last.
    about: Option<Box<Process>>,
    costs: Costs,
    begun: bool,
}

/// What came first.
enum Came {
    /// Something else is wanted.
    Demand,
    /// Nobody listens any more.
    Alone,
    /// Of the table.
    Table(Option<Event>),
    /// Of the one process; nothing, when it has ended.
    Focus(Option<Box<Process>>),
}

impl Asker {
    fn new(client: Client, demands: watch::Receiver<Demand>, sender: mpsc::Sender<Told>) -> Self {
        let (table, focus, about) = (None, None, None);
        let costs = Costs { client: client.clone(), own: Own::default(), daemon: None };
        Self { client, demands, sender, table, focus, about, costs, begun: false }
    }

    async fn run(mut self) {
        if let Err(error) = self.follow().await {
            let _ = self.sender.send(Told::Ended(error.to_string())).await;
        }
    }

    async fn follow(&mut self) -> Result<(), Error> {
        loop {
            let demand = self.demands.borrow_and_update().clone();
            self.ask(&demand).await?;
            loop {
                let told = match self.next().await? {
                    Came::Demand => break,
                    Came::Alone => return Ok(()),
                    Came::Focus(process) => {
                        // One that has ended is shown as it was last.
                        if process.is_none() {
                            self.focus = None;
                        }
                        self.about = process.or(self.about.take());
                        continue;
                    }
                    Came::Table(event) => self.told(event, &demand).await?,
                };
                if let Some(told) = told
                    && self.sender.send(told).await.is_err()
                {
                    return Ok(());
                }
            }
        }
    }

    /// Asks for what is not asked for yet, and lets go of what is not wanted any more.
    async fn ask(&mut self, demand: &Demand) -> Result<(), Error> {
        let table = (!demand.frozen).then(|| demand.request_of_table());
        let focus = demand.request_of_focus().filter(|_| !demand.frozen);
        let of = |it: &Option<(Request, Series)>| it.as_ref().map(|(request, _)| request.clone());
        if of(&self.table) != table {
            self.table = begin(&self.client, table).await?;
        }
        if of(&self.focus) != focus {
            self.about = None;
            // One that ended meanwhile has no details to be told.
            self.focus = begin(&self.client, focus).await.unwrap_or_default();
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Came, Error> {
        tokio::select! {
            biased;
            changed = self.demands.changed() => {
                Ok(if changed.is_ok() { Came::Demand } else { Came::Alone })
            }
            process = of(self.focus.as_mut()) => process.map(Came::Focus),
            event = next(self.table.as_mut()) => event.map(Came::Table),
        }
    }

    /// What an event of the table is to the screen.
    async fn told(&mut self, event: Option<Event>, demand: &Demand) -> Result<Option<Told>, Error> {
        let event = match event {
            None => return Ok(Some(Told::Ended("the daemon tells no more".into()))),
            Some(Event::Away) => {
                let text = "the daemon went away; waiting for it to come back";
                return Ok(Some(Told::Said(text.into())));
            }
            Some(Event::Back(after)) => {
                let mut text = String::from("the daemon was away for ");
                human::span(after.as_nanos() as f64, &mut text);
                return Ok(Some(Told::Said(text + ": of that time nothing is known")));
            }
            Some(Event::Event(event)) => event,
        };
        if let Some(reason) = event.ended {
            let why = event.message.clone().unwrap_or_else(|| format!("{reason:?}"));
            return Ok(Some(Told::Ended(format!("the daemon ended the series: {why}"))));
        }
        let Some(mut rates) = event.rates().map_err(garbled)? else { return Ok(None) };
        // What is asked for anew has no rates at first: what is on the screen stays until then.
        if rates.interval.is_none() && std::mem::replace(&mut self.begun, true) {
            return Ok(None);
        }
        rates.sample.relayed = true;
        // The same node: its clock since boot is ours.
        let now = clock::now();
        rates.sample.set_boot(now.boot.since(now.unix.since(rates.sample.at.unix)));
        let (cost, probes) = self.costs.at(rates.sample.at.boot).await;
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let focus = self.about.as_deref().cloned();
        let inside = Inside::of(demand.focus);
        let news = News { rates, matched, focus, inside, cost, probes, place: None };
        Ok(Some(Told::News(Arc::new(news))))
    }
}

async fn begin(
    client: &Client,
    request: Option<Request>,
) -> Result<Option<(Request, Series)>, Error> {
    let Some(request) = request else { return Ok(None) };
    let series = client.start(&request).await?;
    Ok(Some((request, series)))
}

async fn next(series: Option<&mut (Request, Series)>) -> Result<Option<Event>, Error> {
    let Some((_, series)) = series else { return std::future::pending().await };
    series.next().await
}

/// The next of one process; nothing, when it has ended.
async fn of(series: Option<&mut (Request, Series)>) -> Result<Option<Box<Process>>, Error> {
    let Some((_, series)) = series else { return std::future::pending().await };
    loop {
        let event = match series.next().await? {
            Some(Event::Event(event)) => event,
            Some(_) => continue,
            None => return Ok(None),
        };
        let rates = event.rates().map_err(garbled)?;
        let process = rates.and_then(|it| it.sample.processes.into_iter().next());
        if process.is_some() || event.ended.is_some() {
            return Ok(process.map(Box::new));
        }
    }
}

fn garbled(error: serde_json::Error) -> Error {
    Error::Garbled { why: error.to_string() }
}

/// What this program and the daemon cost.
struct Costs {
    client: Client,
    own: Own,
    daemon: Option<Account>,
}

/// What the daemon told of itself.
struct Account {
    at: Ns,
    cpu: Ns,
    cost: Cost,
    probes: Arc<[Entry]>,
}

impl Costs {
    async fn at(&mut self, at: Ns) -> (Vec<Cost>, Arc<[Entry]>) {
        if self.daemon.as_ref().is_none_or(|it| at.since(it.at) >= STATUS_WITHIN)
            && let Ok(account) = self.account(at).await
        {
            self.daemon = Some(account);
        }
        let mut cost = vec![self.own.look()];
        cost.extend(self.daemon.as_ref().map(|it| it.cost));
        let probes = self.daemon.as_ref().map(|it| Arc::clone(&it.probes));
        (cost, probes.unwrap_or_default())
    }

    /// Asks the daemon what it costs, and how its probes are. One that cannot be asked just now is
    /// waited for by the series.
    async fn account(&self, at: Ns) -> Result<Account, Error> {
        let status = self.client.status().await?;
        let probes = self.client.probes().await?.capabilities.into();
        let before = self.daemon.as_ref().filter(|it| at > it.at);
        let cpu = Ns(status.cpu_ns);
        let cost = Cost {
            who: "daemon",
            cpu_percent: before.map(|it| share(cpu.since(it.cpu), at.since(it.at))),
            rss_bytes: Some(status.rss_bytes),
        };
        Ok(Account { at, cpu, cost, probes })
    }
}
