//! What a viewer sees of the cluster.
//!
//! In: the roll-up of a gateway, the viewer, which job it has opened. Out: the nodes with their
//! totals for all viewers; all jobs and users for viewers that see all processes of the gateway,
//! and their own for others. Rows of single nodes only for the job that is open.

use monitor_protocol::rollup::{ClusterRollup, RollupQuery};

/// A viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollupViewer {
    /// It sees all processes.
    All,
    /// A user that sees its own, with the name of the user.
    User(u32, Option<String>),
}

/// The part of a roll-up that a viewer sees.
pub fn rollup_for(
    viewer: &RollupViewer,
    query: &RollupQuery,
    rollup: &ClusterRollup,
) -> ClusterRollup {
    let is_shown = |uid: Option<u32>| match viewer {
        RollupViewer::All => true,
        RollupViewer::User(own, _) => uid == Some(*own),
    };
    let is_own_name = |name: &str| match viewer {
        RollupViewer::All => true,
        RollupViewer::User(uid, own) => {
            own.as_deref() == Some(name) || uid.to_string().as_str() == name
        }
    };
    let is_limited = *viewer != RollupViewer::All;
    let mut part = rollup.clone();
    part.is_limited = is_limited;
    part.jobs.retain(|job| is_shown(job.uid));
    part.users.retain(|user| is_own_name(&user.name));
    if is_limited {
        (part.other_jobs, part.other_users) = (0, 0);
    }
    for job in part.jobs.iter_mut().filter(|job| query.job.as_ref() != Some(&job.name)) {
        job.by_node = Vec::new();
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::rollup::{JobOnNode, JobSummary, UserSummary};

    fn rollup() -> ClusterRollup {
        let job = |name: &str, uid| JobSummary {
            name: name.to_owned(),
            uid: Some(uid),
            by_node: vec![JobOnNode::default()],
            ..JobSummary::default()
        };
        let user = |name: &str| UserSummary { name: name.to_owned(), ..UserSummary::default() };
        ClusterRollup {
            jobs: vec![job("a", 5), job("b", 6)],
            users: vec![user("u"), user("5"), user("v")],
            other_jobs: 7,
            ..ClusterRollup::default()
        }
    }

    #[test]
    fn a_user_sees_its_own_jobs_and_rows_of_nodes_only_of_the_open_one() {
        let query = RollupQuery { job: Some("b".into()) };
        let names = |it: &ClusterRollup| {
            let rows = |job: &JobSummary| (job.name.clone(), job.by_node.len());
            (it.jobs.iter().map(rows).collect::<Vec<_>>(), it.users.len(), it.other_jobs)
        };
        let all = rollup_for(&RollupViewer::All, &query, &rollup());
        assert_eq!(names(&all), (vec![("a".into(), 0), ("b".into(), 1)], 3, 7));
        let own = RollupViewer::User(5, Some("u".into()));
        let own = rollup_for(&own, &query, &rollup());
        assert_eq!(names(&own), (vec![("a".into(), 0)], 2, 0));
        assert!(own.is_limited && !all.is_limited);
    }
}
