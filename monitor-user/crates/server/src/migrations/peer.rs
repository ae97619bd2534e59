//! The other node of a migration, as commands of the order reach it.
//!
//! In: a step. Out: what the node has replied, that it has surely not executed the step, or that
//! this is not known.

use crate::cluster::{ClusterJobs, GatherCall};
use monitor_protocol::call::Call;
use monitor_protocol::cluster::{Gather, NodeOutcome};
use monitor_protocol::migration::{MigrationStep, MigrationStepKind, MigrationStepResult};
use monitor_protocol::reply::CallReply;
use std::time::Duration;

/// How long the reply to a step may take.
const STEP_TIME: Duration = Duration::from_secs(10);

/// The other node.
#[derive(Clone)]
pub struct MigrationPeer {
    /// The bus.
    pub jobs: ClusterJobs,
    /// Its name.
    pub node: String,
    /// The step, whose kind is replaced.
    pub step: MigrationStep,
}

/// What has become of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The node has replied.
    Replied(MigrationStepResult),
    /// It has not executed the step, and never will.
    NotExecuted(String),
    /// It may have.
    Unknown(String),
}

impl MigrationPeer {
    /// Lets the node take a step.
    pub async fn take(&self, kind: MigrationStepKind) -> StepOutcome {
        let call = Call::MigrationStep(MigrationStep { step: kind, ..self.step.clone() });
        let within_ns = u64::try_from(STEP_TIME.as_nanos()).ok();
        let params = Gather { nodes: Some(self.node.clone()), line: call.to_text(), within_ns };
        let gathered = match self.jobs.gather(GatherCall { uid: 0, params }).await {
            Ok(gathered) => gathered,
            // It may have been published when the connection ended.
            Err(why) => return StepOutcome::Unknown(why.message),
        };
        let Some(reply) = gathered.nodes.into_iter().next() else {
            return StepOutcome::Unknown(format!("{} has no outcome", self.node));
        };
        let why = reply.why.unwrap_or_else(|| reply.outcome.name().to_owned());
        let why = format!("{}: {why}", self.node);
        match (reply.outcome, reply.reply) {
            (NodeOutcome::Executed, Some(line)) => replied(&line),
            (NodeOutcome::Executed, None) | (NodeOutcome::Missing, _) => StepOutcome::Unknown(why),
            (NodeOutcome::Expired | NodeOutcome::Refused, _) => StepOutcome::NotExecuted(why),
        }
    }
}

/// Reads a reply. One with an error decides nothing.
fn replied(line: &str) -> StepOutcome {
    let reply = serde_json::from_str::<CallReply<MigrationStepResult>>(line);
    let result = reply.map_err(|why| format!("its reply is malformed: {why}"));
    match result.and_then(|it| it.into_result("its reply has no result")) {
        Ok(result) => StepOutcome::Replied(result),
        Err(why) => StepOutcome::Unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::migration::CopyState;

    #[test]
    fn only_a_result_says_what_a_node_has_done() {
        let line = r#"{"jsonrpc":"2.0","id":1,"result":{"copy":"running"}}"#;
        let result = MigrationStepResult { copy: CopyState::Running, why: None };
        assert_eq!(replied(line), StepOutcome::Replied(result));
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
        assert_eq!(replied(refused), StepOutcome::Unknown("no".to_owned()));
        assert!(matches!(replied("x"), StepOutcome::Unknown(_)));
    }
}
