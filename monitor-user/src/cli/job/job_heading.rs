//! What the first line of a report says of a job.

use monitor_format::human;
use monitor_jobs::ParallelJob;
use std::sync::Arc;

/// A job, and where it was measured.
#[derive(Clone, Debug)]
pub struct JobHeading {
    /// Its id.
    pub id: Arc<str>,
    /// Its runtime, as it is printed.
    pub runtime: String,
    /// The number of its ranks on all nodes, if it is known.
    pub size: Option<u32>,
    /// The node, or the set of them.
    pub nodes: Arc<str>,
}

impl JobHeading {
    /// Of a job of this node.
    pub fn new(job: &ParallelJob, node: &Arc<str>) -> Self {
        Self {
            id: Arc::clone(&job.id),
            runtime: job.runtime.title().to_owned(),
            size: job.size,
            nodes: Arc::clone(node),
        }
    }

    /// The line without its end, about a number of ranks.
    pub fn text(&self, ranks: usize) -> String {
        let (id, nodes) = (human::escaped_text(&self.id), human::escaped_text(&self.nodes));
        let all = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        let runtime = human::escaped_text(&self.runtime);
        format!("job {id}: {runtime}, {ranks}{all} ranks on {nodes}")
    }
}
