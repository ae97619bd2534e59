//! What a node says of its jobs: the reply to `job_list`.

use super::job_on_nodes::text;
use monitor_omis::{Status, Value, parse};

/// The request.
pub const REQUEST: &str = "1 [0] job_list()";
/// Values of a job in its reply.
const VALUES: usize = 8;

/// A job on a node, as `job_list` describes it.
#[derive(Debug, PartialEq)]
pub struct NodeJob {
    /// Its id.
    pub id: String,
    /// The name of its runtime.
    pub runtime: String,
    /// The pid of its launcher, if it is there.
    pub launcher: Option<u32>,
    /// Its user.
    pub uid: Option<u32>,
    /// The number of its ranks there.
    pub local_ranks: Option<u32>,
    /// The number of all its ranks, if the node knows it.
    pub size: Option<u32>,
    /// Its state there.
    pub state: String,
    /// Seconds since it began there.
    pub age_s: f64,
}

/// The jobs of a reply.
///
/// # Errors
/// It is no list of jobs, or an error; what.
pub fn jobs(reply: &str) -> Result<Vec<NodeJob>, String> {
    let reply = parse::reply(reply.as_bytes()).map_err(|why| why.to_string())?;
    let answer = reply.0.first().ok_or("its reply is empty")?;
    if answer.status != Status::OK {
        let detail = answer.results.first().and_then(text).map(|text| format!(": {text}"));
        return Err(format!("status {}{}", answer.status.0, detail.unwrap_or_default()));
    }
    let Some(Value::List(values)) = answer.results.first() else {
        return Err("its reply has no list of jobs".to_owned());
    };
    let rows = values.chunks_exact(VALUES).map(NodeJob::from_values);
    let jobs: Option<Vec<NodeJob>> = rows.collect();
    jobs.filter(|_| values.len() % VALUES == 0).ok_or_else(|| "its reply is malformed".to_owned())
}

impl NodeJob {
    fn from_values(values: &[Value]) -> Option<Self> {
        // -1 stands for an unknown number.
        let number = |value: &Value| value.integer::<u32>();
        let [id, runtime, launcher, uid, local_ranks, size, state, age] = values else {
            return None;
        };
        let age_s = match age {
            Value::Float(seconds) => seconds.0,
            whole => f64::from(whole.integer::<u32>()?),
        };
        Some(Self {
            id: text(id)?,
            runtime: text(runtime)?,
            launcher: number(launcher),
            uid: number(uid),
            local_ranks: number(local_ranks),
            size: number(size),
            state: text(state)?,
            age_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_are_absent() {
        let reply = r#"1 [0] job_list(0,["77","openmpi4",6,1000,1,-1,"running",9.5])"#;
        let found = jobs(reply).unwrap();
        assert_eq!((found[0].launcher, found[0].size, found[0].age_s), (Some(6), None, 9.5));
        assert_eq!(jobs("1 [0] job_list(0,[])"), Ok(vec![]));
    }

    #[test]
    fn a_reply_that_is_none_is_a_reason() {
        let why = |reply: &str| jobs(reply).unwrap_err();
        assert_eq!(why("1 [0] job_list(400)"), "status 400");
        assert_eq!(why(r#"1 [0] job_list(0,["77"])"#), "its reply is malformed");
        assert_eq!(why("1 [0] job_list(0)"), "its reply has no list of jobs");
        assert!(jobs("nonsense").is_err());
    }
}
