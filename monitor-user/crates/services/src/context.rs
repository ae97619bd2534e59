//! The context that a service's function gets besides its parameters, and the outcome it returns.
//!
//! It resolves the processes that a parameter names, and checks that they are in the scope of the
//! session and that the caller has the right that the specification demands.

use super::{EngineApi, Session};
use monitor_event::node_event::EventKind;
use monitor_event::{ActionReport, CallResult, Refusal, Right, Target, Ticket};
use monitor_model::{Identity, Ns, Process};
use monitor_omis::object::{Object, Objects};
use monitor_omis::{Dialect, Node, Status, Token, Value, token::TokenKind};
use monitor_platform::{ActionContext, Platform, ProcessAction};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Its number.
    pub node: Node,
    /// Its name.
    pub name: String,
}

/// The context of a call.
pub struct CallContext<'c> {
    /// Time of the call on `CLOCK_BOOTTIME`.
    pub now: Ns,
    /// This node.
    pub node: Node,
    /// All nodes, ascending.
    pub members: &'c [ClusterMember],
    /// The session of the calling tool.
    pub session: &'c mut Session,
    /// The platform: processes, actions and events of this node.
    pub platform: &'c mut dyn Platform,
    /// The engine: stored requests, user events, instruments.
    pub engine: &'c mut dyn EngineApi,
    /// The right that the specification demands.
    pub right: Right,
    /// Number of the action that the call may start.
    pub ticket: Ticket,
    /// The thread that is held for the event whose action this is.
    pub held: Option<Target>,
    /// Whether files are read first: the result is not used, and the call is made again.
    pub awaits_files: bool,
}

/// The processes that a parameter names: those to act on, and why the others are refused.
#[derive(Debug, Default)]
pub struct ResolvedTargets {
    /// The processes to act on, as they are now.
    pub served: Vec<Process>,
    /// The others, as the caller named them, with the refusal.
    pub failed: Vec<(Value, Refusal)>,
}

/// The outcome of a service's function.
pub enum Outcome {
    /// Finished or refused.
    Done(CallResult),
    /// The action is pending; its report makes the result.
    Pending(PendingCall),
    /// A process migrates to another node, which takes several actions on both nodes.
    Migrates(Identity, Node),
}

/// A call whose action is pending.
pub struct PendingCall {
    /// Makes the result of the action's report.
    pub then: Completion,
    /// Objects that the caller named and that are not acted on.
    pub failed: Vec<(Value, Refusal)>,
}

/// Makes the result of a call from the report of its action.
pub type Completion = fn(&mut CallContext<'_>, ActionReport) -> Result<CallResult, Refusal>;

impl From<CallResult> for Outcome {
    fn from(done: CallResult) -> Self {
        Self::Done(done)
    }
}

/// The result of a service for a list: success if it served all objects, `PARTIAL` if some, and
/// the first refusal if none. In the extended dialect, `PARTIAL` lists each failed object with its
/// status.
pub fn list_result(failed: &[(Value, Refusal)], n_served: usize, dialect: Dialect) -> CallResult {
    match failed {
        [] => CallResult::ok(),
        [(_, first), ..] if n_served == 0 => first.clone().into(),
        some => {
            let pairs = some.iter().flat_map(|(object, why)| [object.clone(), why.status.0.into()]);
            let results = match dialect {
                Dialect::Extended => vec![Value::List(pairs.collect())],
                Dialect::Strict => Vec::new(),
            };
            CallResult { status: Status::PARTIAL, results, reason: None }
        }
    }
}

impl CallContext<'_> {
    /// Has the platform open what the first process of a scope needs: its children and its end are
    /// watched from then on. Nothing may be changed before.
    ///
    /// # Errors
    /// If the call is to be made again.
    pub fn prepare_scope(&mut self) -> Result<(), Refusal> {
        // Where ends are not seen, a process is attached all the same.
        let checked = self.platform.check_event(&EventKind::Ended);
        if self.platform.is_deferred() { checked } else { Ok(()) }
    }

    /// The processes of a list; all attached ones if it is empty.
    ///
    /// # Errors
    /// If the processes cannot be read.
    pub fn processes(&mut self, list: &Value) -> Result<ResolvedTargets, Refusal> {
        let mut chosen = ResolvedTargets::default();
        let claims = self.resolve(list, &mut chosen);
        let pids: Vec<_> = claims.iter().map(|(_, id)| id.pid).collect();
        let mut seen = self.platform.read_processes(&pids)?.into_iter().peekable();
        for (named, id) in claims {
            while seen.next_if(|it| it.id.pid < id.pid).is_some() {}
            let it = seen.next_if(|it| it.id.pid == id.pid);
            match self.session.admit(id, it, self.right) {
                Ok(it) => chosen.served.push(it),
                // "All attached processes" does not include those that have ended.
                Err(why) if named.is_none() && why.status == Status::GONE => {}
                Err(why) => chosen.failed.push((named.unwrap_or_else(|| self.number(id)), why)),
            }
        }
        Ok(chosen)
    }

    /// The process that a parameter names.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn process(&mut self, named: &Value) -> Result<Process, Refusal> {
        let chosen = self.processes(&Value::List(vec![named.clone()]))?;
        let failed = chosen.failed.into_iter().next();
        chosen.served.into_iter().next().ok_or_else(|| match failed {
            Some((_, why)) => why,
            None => Refusal::new(Status::NO_SUCH_OBJECT, "no process is named"),
        })
    }

    /// The number of a process in this session.
    pub fn number(&mut self, id: Identity) -> Value {
        Value::from(self.session.numbers.assign(id))
    }

    /// Does an action to the processes of a list; the outcome is there when all are done.
    ///
    /// # Errors
    /// If the processes cannot be read, or the action is refused.
    pub fn act_on(
        &mut self,
        list: &Value,
        act: &ProcessAction,
        then: Completion,
    ) -> Result<Outcome, Refusal> {
        let chosen = self.processes(list)?;
        let ids: Vec<Identity> = chosen.served.iter().map(|it| it.id).collect();
        if ids.is_empty() {
            return Ok(self.list_result(&chosen.failed, 0).into());
        }
        self.start_action(act, (&ids, chosen.failed), then)
    }

    /// Does an action to processes that need not be attached, as far as the tool has the right.
    ///
    /// # Errors
    /// If the action is refused.
    pub fn act_on_processes(
        &mut self,
        processes: Vec<Process>,
        act: &ProcessAction,
        then: Completion,
    ) -> Result<Outcome, Refusal> {
        let (mut ids, mut failed) = (Vec::new(), Vec::new());
        for process in processes {
            self.session.note_visibility(&process);
            match self.session.tool.may(self.right, &process) {
                Ok(()) => ids.push(process.id),
                Err(why) => failed.push((self.number(process.id), why)),
            }
        }
        if ids.is_empty() {
            return Ok(self.list_result(&failed, 0).into());
        }
        self.start_action(act, (&ids, failed), then)
    }

    /// The thread that a parameter names, by token or number, or the process that it names instead.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn thread(&mut self, named: &Value) -> Result<(Process, Option<Target>), Refusal> {
        let text = format!("no thread {named} on node {}", self.node.0);
        let none = || Refusal::new(Status::NO_SUCH_OBJECT, text.clone());
        let found = match named {
            Value::Token(Token { kind: TokenKind::Thread, serial, .. }) => {
                self.find_thread(u32::try_from(*serial).ok()).ok_or_else(none)?
            }
            // Threads and processes have numbers of one kind, as `$thread` has.
            _ => match self.process(named) {
                Ok(process) => return Ok((process, None)),
                Err(why) => self.find_thread(named.integer()).ok_or(why)?,
            },
        };
        let seen = self.platform.read_processes(&[found.process.pid])?.into_iter().next();
        let number = self.number(seen.ok_or_else(none)?.id);
        let process = self.process(&number)?;
        let target = Target { process: process.id, thread: found.thread };
        Ok((process, Some(target)))
    }

    fn find_thread(&mut self, tid: Option<u32>) -> Option<Target> {
        tid.and_then(|tid| self.platform.find_thread(monitor_model::id::Pid(tid)))
    }

    /// Does an action to the thread that a parameter names; to the first one of a process, or the
    /// one that an event holds.
    ///
    /// # Errors
    /// If the thread is refused, or the action is.
    pub fn act_on_thread(
        &mut self,
        named: &Value,
        act: &ProcessAction,
        then: Completion,
    ) -> Result<Outcome, Refusal> {
        let (process, thread) = self.thread(named)?;
        let held = self.held;
        self.held = thread.or(held);
        let outcome = self.start_action(act, (&[process.id], Vec::new()), then);
        self.held = held;
        outcome
    }

    /// Does an action that has no process yet.
    ///
    /// # Errors
    /// If the action is refused.
    pub fn act_on_none(
        &mut self,
        act: &ProcessAction,
        then: Completion,
    ) -> Result<Outcome, Refusal> {
        self.start_action(act, (&[], Vec::new()), then)
    }

    /// Starts an action for the calling tool; its outcome is there if it is done at once.
    fn start_action(
        &mut self,
        act: &ProcessAction,
        (on, failed): (&[Identity], Vec<(Value, Refusal)>),
        then: Completion,
    ) -> Result<Outcome, Refusal> {
        let by = ActionContext { ticket: self.ticket, tool: &self.session.tool, thread: self.held };
        Ok(match self.platform.perform(by, act, on) {
            Some(by_process) => then(self, ActionReport { by_process, failed })?.into(),
            None => Outcome::Pending(PendingCall { then, failed }),
        })
    }

    /// The result for a list of which `n_served` processes were acted on.
    pub fn list_result(&self, failed: &[(Value, Refusal)], n_served: usize) -> CallResult {
        list_result(failed, n_served, self.session.dialect)
    }

    /// The same with values before the failed objects.
    pub fn list_values<const N: usize>(
        &self,
        values: [Value; N],
        (failed, n_served): (&[(Value, Refusal)], usize),
    ) -> CallResult {
        let mut done = self.list_result(failed, n_served);
        if done.status.is_success() {
            let _none = done.results.splice(0..0, values);
        }
        done
    }

    /// The result of an action that returns its status alone.
    pub fn acknowledge(&mut self, report: ActionReport) -> CallResult {
        let mut failed = report.failed;
        let mut n_served = 0;
        for (id, result) in report.by_process {
            match result {
                Ok(_) => n_served += 1,
                Err(why) => failed.push((self.number(id), why)),
            }
        }
        self.list_result(&failed, n_served)
    }

    /// The processes that a list names, ascending by pid; without a name where the list means all
    /// attached ones.
    fn resolve(
        &mut self,
        list: &Value,
        chosen: &mut ResolvedTargets,
    ) -> Vec<(Option<Value>, Identity)> {
        let mut claims = Vec::new();
        let mut all = |session: &Session| {
            claims.extend(session.scope.members().map(|id| (None, id)));
        };
        match Objects::from_value(list) {
            Some(Objects::Only(objects)) => {
                for object in objects {
                    self.resolve_object(object, &mut claims, chosen);
                }
            }
            Some(Objects::All) | None => all(self.session),
        }
        claims.sort_by_key(|(_, id)| *id);
        claims.dedup_by_key(|(_, id)| *id);
        claims
    }

    fn resolve_object(
        &mut self,
        object: Object,
        claims: &mut Vec<(Option<Value>, Identity)>,
        chosen: &mut ResolvedTargets,
    ) {
        let (named, number) = match object {
            Object::Token(Token { kind: TokenKind::Node, .. }) => {
                return claims.extend(self.session.scope.members().map(|id| (None, id)));
            }
            Object::Token(token) => (Value::Token(token), Some(token.serial)),
            Object::Number(number) => (Value::Integer(number), number.get()),
        };
        let found =
            number.ok_or_else(|| self.no_such_process(&named)).and_then(|number| {
                match self.session.numbers.find(number) {
                    Some(id) => Ok(id),
                    None => Err(self.why_unknown(number, &named)),
                }
            });
        match found {
            Ok(id) => claims.push((Some(named), id)),
            Err(why) => chosen.failed.push((named, why)),
        }
    }

    /// Why a number does not name a process of this session.
    fn why_unknown(&mut self, number: u64, named: &Value) -> Refusal {
        let pid = u32::try_from(number).ok().map(monitor_model::id::Pid);
        let there =
            pid.and_then(|pid| self.platform.read_processes(&[pid]).ok()?.into_iter().next());
        match there.filter(|it| self.session.tool.visibility.shows(it)) {
            Some(it) => self.session.not_attached(&it, named),
            None => self.no_such_process(named),
        }
    }

    fn no_such_process(&self, named: &Value) -> Refusal {
        let text = format!("no process {named} on node {}", self.node.0);
        Refusal::new(Status::NO_SUCH_OBJECT, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(number: i32) -> (Value, Refusal) {
        (number.into(), Refusal::new(Status::GONE, "process has ended"))
    }

    #[test]
    fn a_list_is_done_partly_done_or_refused() {
        assert_eq!(list_result(&[], 0, Dialect::Extended), CallResult::ok());
        let partly = list_result(&[gone(7)], 1, Dialect::Extended);
        assert_eq!(partly.status, Status::PARTIAL);
        assert_eq!(partly.results, [Value::from(vec![7.into(), 301.into()])]);
        assert_eq!(list_result(&[gone(7)], 1, Dialect::Strict).results, []);
        assert_eq!(list_result(&[gone(7), gone(8)], 0, Dialect::Extended).status, Status::GONE);
    }
}
