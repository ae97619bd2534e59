//! Dispatch of the outputs of the monitor engine: to a client, to the sampler thread or to another
//! node.

use super::DaemonLoop;
use super::rule_listing::{AskNext, RuleListing};
use super::sampler::{DueReads, SamplerJob};
use crate::http::LoopbackRights;
use crate::policy::Peer;
use monitor_cluster::ClusterOutput;
use monitor_cluster::message::Message;
use monitor_model::{Ns, Refusal, Target};
use monitor_monitors::{Answer, MonitorInput, MonitorOutput, ReadRequest, ServiceQuery};
use monitor_protocol::call::Call;
use monitor_sys::clock;

/// Whether a target of a monitor may be on another node.
const fn may_be_elsewhere(target: &Target) -> bool {
    matches!(target, Target::Node { .. } | Target::Pid { node: Some(_), .. } | Target::Rank(_))
}

impl DaemonLoop {
    /// Passes an input to the cluster, and dispatches the outputs.
    pub(super) fn input(&mut self, input: MonitorInput) {
        let is_elsewhere = match &input {
            MonitorInput::Called { call: Call::Monitor(request), .. } => {
                request.targets.iter().any(may_be_elsewhere)
            }
            _ => false,
        };
        let now = self.now();
        if is_elsewhere || self.cluster.needs_nodes(now) {
            match self.cluster_bridge.nodes() {
                Some((own, others)) => self.cluster.set_nodes(own, others),
                None => self.cluster.forget_nodes(),
            }
        }
        let caller = match &input {
            MonitorInput::Called { from, .. } => Some((*from, clock::thread_cpu())),
            _ => None,
        };
        self.cluster.set_unread(self.clients.over_share());
        let outputs = self.cluster.input(now, input);
        self.dispatch(outputs);
        if let Some((conn, began)) = caller {
            self.charge(conn, began);
        }
    }

    /// The boot time now. Sets both clocks of the cluster, because the realtime clock may jump.
    fn now(&mut self) -> Ns {
        let now = clock::now();
        self.cluster.set_clock(now);
        now.boot
    }

    /// Sends the needed capabilities to the sampler thread if they changed, before the read that
    /// needs them.
    fn update_attached(&mut self) {
        let needed = self.needed_capabilities();
        if needed != self.attached {
            self.attached.clone_from(&needed);
            self.send_job(SamplerJob::SetNeeded(needed));
        }
    }

    /// Handles a message of another node about a monitor; `peer` is the user of a part that is to
    /// start here.
    pub(super) fn peer_message(
        &mut self,
        from: &str,
        mut message: Message,
        peer: Option<Peer>,
    ) -> Option<MonitorInput> {
        let visibility = match peer {
            Some(ref peer) => {
                self.clients.user_rights(peer, LoopbackRights::Observe).map(|it| it.0)
            }
            None => Err(Refusal::denied("its user is not known here")),
        };
        if let (Message::Start { caller, .. }, Some(peer)) = (&mut message, &peer) {
            caller.gid = peer.gid;
        }
        let now = self.now();
        let outputs = self.cluster.receive(now, (from, message), visibility);
        self.dispatch(outputs);
        None
    }

    fn dispatch(&mut self, outputs: Vec<ClusterOutput>) {
        self.update_attached();
        for output in outputs {
            match output {
                ClusterOutput::Local(output) => self.deliver(output),
                ClusterOutput::Send { to, message } => self.send_to(&to, message),
            }
        }
    }

    fn send_to(&mut self, to: &str, message: Message) {
        if let Err(returned) = self.cluster_bridge.send(to, message) {
            let outputs = self.cluster.unreachable(clock::boot(), to, &returned);
            self.dispatch(outputs);
        }
    }

    fn deliver(&mut self, output: MonitorOutput) {
        match output {
            MonitorOutput::Reply { to, tag, answer } => {
                if let Ok(Answer::Sample { event, .. }) = &answer {
                    self.usage.count_sample(Ns(event.late_ns));
                }
                self.clients.answer(to, &tag, answer);
            }
            MonitorOutput::Event { to, event } => {
                if event.sample.is_some() {
                    self.usage.count_sample(Ns(event.late_ns));
                }
                self.clients.event(to, event);
            }
            MonitorOutput::Read(monitors) => self.read(monitors),
            MonitorOutput::StatFile(file) => self.files.start(file),
            MonitorOutput::CheckClaims(claims) => self.send_job(SamplerJob::Claims(claims)),
            MonitorOutput::Query { to, tag, query: ServiceQuery::Service } => {
                self.clients.reply(to, &tag, Ok(self.daemon_status()));
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Rules } => {
                if let Some(viewer) = self.clients.viewer(to) {
                    let cluster = self.cluster_bridge.running_requests();
                    let cluster = cluster
                        .map(|it| -> AskNext { Box::new(move |listing| it.list_rules(listing)) });
                    self.request_thread.list_rules(RuleListing::new(viewer, tag, cluster));
                }
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Probes } => self.doctor(to, tag),
            MonitorOutput::Query { to, tag, query: ServiceQuery::NodeStatus } => {
                self.node_status(to, tag);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Members } => {
                self.members(to, tag);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Gather(params) } => {
                self.gather(to, tag, params);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Follow(params) } => {
                self.follow(to, tag, params);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Rollup(query) } => {
                self.rollup(to, tag, query);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::ClusterSession } => {
                self.begin_cluster_session(to, &tag);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::SendFile(params) } => {
                self.send_file(to, tag, params);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::ReceiveFile(params) } => {
                self.receive_file(to, tag, params);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::MigrateProcess(params) } => {
                self.migrate_process(to, tag, params);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::MigrationStep(step) } => {
                self.migration_step(to, tag, step);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Migrations } => {
                self.list_migrations(to, tag);
            }
            MonitorOutput::Query { to, tag, query: ServiceQuery::Flight(part) } => {
                self.send_job(SamplerJob::ExportFlight { to, tag, part });
            }
        }
    }

    fn read(&mut self, monitors: Vec<ReadRequest>) {
        self.usage.count_reading();
        let shed = self.usage.shed();
        self.send_job(SamplerJob::Read(DueReads { monitors, shed }));
    }

    /// Sends a job to the sampler thread.
    pub(super) fn send_job(&self, job: SamplerJob) {
        // The thread lives as long as the loop.
        let _ = self.sampler.jobs.send(job);
    }
}
