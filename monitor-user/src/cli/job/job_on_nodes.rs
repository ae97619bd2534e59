//! A job of many nodes as one: what the service of each node says of the ranks that it has.
//!
//! In: a name of a job, a set of nodes. Out: the nodes with ranks of it, the nodes without, and the
//! nodes without a reply. The id is the same on all nodes, as that of PRRTE and Slurm is; a name
//! that is none of an id, such as a pid, is of one node alone and refused.

use super::job_heading::JobHeading;
use crate::cli::exit::{Exit, Failure};
use crate::cli::node_replies::{MissingNodes, gather};
use crate::cli::output::notice;
use monitor_client::Client;
use monitor_cluster::node_set::fold;
use monitor_jobs::RankSet;
use monitor_omis::{Status, Value, parse};
use monitor_protocol::cluster::NodeOutcome;
use monitor_services::job::ranks::{NodeRank, RANK_VALUES};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;

/// The replies of nodes to one request about a job.
#[derive(Debug, Default)]
pub struct CalledNodes {
    /// The results of the nodes that have it.
    pub results: Vec<(String, Vec<Value>)>,
    /// When the reply of each of them came, after the request was sent.
    pub late: BTreeMap<String, Duration>,
    /// The nodes that do not have it.
    pub without: Vec<String>,
    /// The nodes without a reply, or that refuse it.
    pub missing: MissingNodes,
    /// Whether a node has refused it for lack of rights.
    pub is_denied: bool,
}

/// Lets nodes execute a request about a job, or several that follow each other in one line: the
/// results are those of all.
///
/// # Errors
/// The set is none, or the service does not answer.
pub async fn call(
    client: &Client,
    on: (&str, Duration),
    request: &str,
) -> Result<CalledNodes, Failure> {
    let gathered = gather(client, on, format!("1 [0] {request}")).await?;
    let missing = MissingNodes::from_gathered(&gathered);
    let mut called = CalledNodes { missing, ..CalledNodes::default() };
    for it in gathered.nodes {
        if let Some(reply) = &it.reply {
            let late = Duration::from_nanos(it.late_ns.unwrap_or_default());
            called.late.insert(it.node.clone(), late);
            called.add(&it.node, reply);
        }
    }
    Ok(called)
}

/// The longest time for replies.
const MAX_WITHIN: Duration = Duration::from_secs(60);

impl JobOnNodes {
    /// Lets the nodes with ranks of the job execute a request, all at once; `make` makes it of the
    /// name of the job there. `lasts` is how long that takes, beside the time for replies. Nodes
    /// that are missing already are among those of the result.
    ///
    /// # Errors
    /// It takes too long for a command, or the service does not answer.
    pub async fn call_each(
        &mut self,
        client: &Client,
        (within, lasts): (Duration, Duration),
        make: impl Fn(&str) -> String,
    ) -> Result<CalledNodes, Failure> {
        let within = within.saturating_add(lasts);
        if within > MAX_WITHIN {
            let why = "over nodes, this may take 60 s with the time of --within: shorten it";
            return Err(Failure::usage(why));
        }
        let mut calls = JoinSet::new();
        for (nodes, name) in self.targets() {
            let (client, request) = (client.clone(), make(&name));
            calls.spawn(async move { call(&client, (&nodes, within), &request).await });
        }
        let mut all = CalledNodes::default();
        while let Some(done) = calls.join_next().await {
            let called = done.map_err(Failure::failed)??;
            all.results.extend(called.results);
            all.late.extend(called.late);
            all.missing.extend(called.missing);
            all.is_denied |= called.is_denied;
            for node in called.without {
                let why = "the job has ended there meanwhile";
                all.missing.add(&node, (NodeOutcome::Refused, why));
            }
        }
        all.results.sort_by(|one, other| one.0.cmp(&other.0));
        all.missing.extend(std::mem::take(&mut self.missing));
        Ok(all)
    }

    /// The first line of a report about it.
    pub fn heading(&self) -> JobHeading {
        JobHeading {
            id: self.id.as_str().into(),
            runtime: self.runtime(),
            size: None,
            nodes: self.nodes().into(),
        }
    }

    /// The runtimes that nodes name.
    pub fn runtime(&self) -> String {
        let all: BTreeSet<&str> = self.parts.values().map(|it| it.runtime.as_str()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The node of each rank.
    pub fn hosts(&self) -> BTreeMap<u32, String> {
        let of_part = |(node, part): (&String, &NodePart)| {
            part.ranks.iter().map(|it| (it.rank, node.clone())).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of_part).collect()
    }
}

impl CalledNodes {
    /// Takes the results out, as `read` reads them; a node whose results are none is missing.
    pub fn take<T>(&mut self, read: impl Fn(&str, &[Value]) -> Option<T>) -> Vec<(String, T)> {
        let mut taken = Vec::new();
        for (node, results) in std::mem::take(&mut self.results) {
            match read(&node, &results) {
                Some(it) => taken.push((node, it)),
                None => {
                    let why = "its reply is malformed";
                    self.missing.add(&node, (NodeOutcome::Refused, why));
                }
            }
        }
        taken
    }

    /// Whether a node has a job whose id begins so.
    fn has_id(&self, beginning: &str) -> bool {
        let ids = self.results.iter().filter_map(|(_, results)| text(results.first()?));
        ids.into_iter().any(|id| id.starts_with(beginning))
    }

    fn add(&mut self, node: &str, reply: &str) {
        let refuse = |why: String| (NodeOutcome::Refused, why);
        let answers = parse::reply(reply.as_bytes()).map(|reply| reply.0).unwrap_or_default();
        if !answers.is_empty() && answers.iter().all(|answer| answer.status.is_success()) {
            let results = answers.into_iter().flat_map(|answer| answer.results);
            return self.results.push((node.to_owned(), results.collect()));
        }
        let failed = answers.into_iter().find(|answer| !answer.status.is_success());
        let (outcome, why) = match failed {
            None => refuse("its reply is malformed".to_owned()),
            Some(answer) if answer.status == Status::NO_SUCH_OBJECT => {
                return self.without.push(node.to_owned());
            }
            Some(answer) => {
                self.is_denied |= answer.status == Status::PERMISSION;
                let detail = answer.results.iter().find_map(Value::text);
                let detail = detail.map(|text| text.to_str_lossy().into_owned());
                refuse(detail.unwrap_or_else(|| format!("status {}", answer.status.0)))
            }
        };
        self.missing.add(node, (outcome, &why));
    }
}

/// What a node says of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePart {
    /// The runtime.
    pub runtime: String,
    /// The state there.
    pub state: String,
    /// The launcher, if it is there.
    pub launcher: Option<u32>,
    /// The ranks there.
    pub ranks: Vec<NodeRank>,
}

/// A job on the nodes that have ranks of it.
#[derive(Debug)]
pub struct JobOnNodes {
    /// Its id.
    pub id: String,
    /// The ranks that were named; all of them if absent.
    pub named: Option<RankSet>,
    /// What each node says of it.
    pub parts: BTreeMap<String, NodePart>,
    /// When the reply of each node came, after the request was sent.
    pub late: BTreeMap<String, Duration>,
    /// The nodes without a reply, or that refuse it.
    pub missing: MissingNodes,
}

impl JobOnNodes {
    /// Finds a job, `JOB` or `JOB:RANKS`.
    ///
    /// # Errors
    /// No node has it, or several jobs have this name; the set is none, or the service does not
    /// answer.
    pub async fn find(
        client: &Client,
        on: (&str, Duration),
        written: &str,
    ) -> Result<Self, Failure> {
        let whole = request(client, on, written).await?;
        let split = written.rsplit_once(':').filter(|it| !it.0.is_empty());
        let (job, named, called) = match split {
            // Ids may have a colon.
            Some((job, ranks)) if !whole.has_id(written) => {
                let named: RankSet = ranks.parse().map_err(Failure::usage)?;
                (job, Some(named), request(client, on, job).await?)
            }
            _ => (written, None, whole),
        };
        Self::from_called(called, job, named)
    }

    fn from_called(
        mut called: CalledNodes,
        job: &str,
        named: Option<RankSet>,
    ) -> Result<Self, Failure> {
        let mut found: BTreeMap<String, BTreeMap<String, NodePart>> = BTreeMap::new();
        for (node, (id, part)) in called.take(|_, results| NodePart::from_results(results)) {
            found.entry(id).or_default().insert(node, part);
        }
        let CalledNodes { late, missing, .. } = called;
        // A pid names a process of each node.
        let pids = found.extract_if(.., |id, _| !id.starts_with(job));
        let pids: BTreeSet<String> = pids.map(|(id, _)| id).collect();
        let mut found = found.into_iter();
        let (Some((id, mut parts)), others) = (found.next(), found.collect::<Vec<_>>()) else {
            missing.notices().iter().for_each(|line| notice(line));
            return Err(none(job, &pids));
        };
        if !others.is_empty() {
            let ids: Vec<String> =
                [id].into_iter().chain(others.into_iter().map(|it| it.0)).collect();
            let ids = ids.join(", ");
            return Err(Failure::usage(format!("{job:?} is the beginning of several jobs: {ids}")));
        }
        if let Some(named) = &named {
            let here = |part: &NodePart| part.ranks.iter().map(|it| it.rank).collect::<Vec<_>>();
            let all: RankSet = parts.values().flat_map(here).collect();
            if let Some(rank) = named.first_not_in(&all) {
                let why = format!("job {id} has no rank {rank} on these nodes, but {all}");
                return Err(Failure::usage(why));
            }
            for part in parts.values_mut() {
                part.ranks.retain(|it| named.contains(it.rank));
            }
            parts.retain(|_, part| !part.ranks.is_empty());
        }
        Ok(Self { id, named, parts, late, missing })
    }

    /// The nodes with ranks of it, folded.
    pub fn nodes(&self) -> String {
        fold(self.parts.keys().map(String::as_str))
    }

    /// The numbers of its ranks.
    pub fn ranks(&self) -> RankSet {
        self.parts.values().flat_map(|part| part.ranks.iter().map(|it| it.rank)).collect()
    }

    /// The sets of nodes that a request goes to, with the name of what it is about there.
    pub fn targets(&self) -> Vec<(String, String)> {
        if self.named.is_none() {
            return vec![(self.nodes(), self.id.clone())];
        }
        let target = |(node, part): (&String, &NodePart)| {
            let ranks: RankSet = part.ranks.iter().map(|it| it.rank).collect();
            (node.clone(), format!("{}:{ranks}", self.id))
        };
        self.parts.iter().map(target).collect()
    }
}

async fn request(client: &Client, on: (&str, Duration), job: &str) -> Result<CalledNodes, Failure> {
    call(client, on, &format!("job_info({})", Value::from(job))).await
}

/// The failure if no node has a job.
fn none(job: &str, pids: &BTreeSet<String>) -> Failure {
    let message = match pids.first() {
        None => format!("no job {job:?} on these nodes"),
        Some(id) => format!("{job} is a process of one node, of job {id}: name the job by its id"),
    };
    Failure { message, exit: Exit::NoTarget }
}

impl NodePart {
    /// The id and the part of the results of `job_info`.
    pub fn from_results(results: &[Value]) -> Option<(String, Self)> {
        let [id, runtime, state, launcher, ranks] = results else { return None };
        let ranks = ranks.list()?;
        let rows = ranks.chunks(RANK_VALUES).map(NodeRank::from_values);
        let part = Self {
            runtime: text(runtime)?,
            state: text(state)?,
            launcher: launcher.integer(),
            ranks: rows.collect::<Option<_>>()?,
        };
        Some((text(id)?, part))
    }
}

/// A value as text.
pub fn text(value: &Value) -> Option<String> {
    value.text().map(|text| text.to_str_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(replies: &[(&str, &str)]) -> CalledNodes {
        let mut called = CalledNodes::default();
        replies.iter().for_each(|(node, reply)| called.add(node, reply));
        called
    }

    fn info(id: &str, ranks: &str) -> String {
        format!("1 [0] job_info(0,\"{id}\",\"prrte\",\"running\",-1,[{ranks}])")
    }

    const RANK_0: &str = "0,\"n1\",7,\"/a\",\"R\",1.5,0.25,4096";
    const RANK_1: &str = "1,\"n2\",7,\"/a\",\"S\",-1.0,-1.0,-1";

    #[test]
    fn ranks_of_all_nodes_are_those_of_one_job() {
        let (one, other) = (info("prterun-a-1@1", RANK_0), info("prterun-a-1@1", RANK_1));
        let none = "1 [0] job_info(300,\"no job\")";
        let denied = "1 [0] job_info(400,\"no right\")";
        let called = || called(&[("n1", &one), ("n2", &other), ("n3", none), ("n4", denied)]);
        assert_eq!(called().without, ["n3"]);
        assert!(called().has_id("prte") && !called().has_id("prterun-a-1@1:0"));
        assert_eq!(called().missing.notices().len(), 1);
        let job = JobOnNodes::from_called(called(), "prte", None).expect("one job");
        assert_eq!((job.nodes().as_str(), job.ranks().to_string().as_str()), ("n[1-2]", "0-1"));
        assert_eq!(job.targets(), [("n[1-2]".to_owned(), "prterun-a-1@1".to_owned())]);
        let rank = &job.parts["n2"].ranks[0];
        assert_eq!((rank.cpu_s, rank.rss_bytes, rank.state), (None, None, 'S'));
        // Of some ranks, each node gets its own.
        let named = Some("1".parse().expect("a set"));
        let job = JobOnNodes::from_called(called(), "prte", named).expect("one job");
        assert_eq!(job.targets(), [("n2".to_owned(), "prterun-a-1@1:1".to_owned())]);
        let absent = Some("1-2".parse().expect("a set"));
        let failure = JobOnNodes::from_called(called(), "prte", absent).expect_err("rank 2");
        assert!(failure.message.contains("no rank 2"), "{}", failure.message);
    }

    #[test]
    fn a_name_of_several_jobs_or_of_a_process_is_refused() {
        let (one, other) = (info("ab", RANK_0), info("ac", RANK_1));
        let both = called(&[("n1", &one), ("n2", &other)]);
        let failure = JobOnNodes::from_called(both, "a", None).expect_err("two jobs");
        assert_eq!((failure.exit, failure.message.contains("ab, ac")), (Exit::Usage, true));
        let failure =
            JobOnNodes::from_called(called(&[("n1", &one)]), "7", None).expect_err("a pid");
        assert_eq!(failure.exit, Exit::NoTarget);
        assert!(failure.message.contains("name the job by its id"), "{}", failure.message);
        let failure = JobOnNodes::from_called(called(&[]), "x", None).expect_err("no job");
        assert_eq!(failure.message, "no job \"x\" on these nodes");
    }
}
