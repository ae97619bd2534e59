//! Dispatch of the outputs of the monitor engine: to a client, to the sampler thread or to another
//! node.

use super::DaemonLoop;
use super::sampler::{DueReads, SamplerJob};
use monitor_cluster::message::{Message, RequestMessage};
use monitor_cluster::{ClusterOutput, links::PeerMessage};
use monitor_model::{Ns, RankTarget};
use monitor_monitors::{Answer, MonitorInput, MonitorOutput, ReadRequest, ServiceQuery};
use monitor_omis::Node;
use monitor_sys::clock;

impl DaemonLoop {
    /// Passes an input to the cluster, and dispatches the outputs.
    pub(super) fn input(&mut self, input: MonitorInput) {
        if let (MonitorInput::Called { .. }, Some(links)) = (&input, &self.links) {
            self.cluster.set_nodes(links.others());
        }
        let caller = match &input {
            MonitorInput::Called { from, .. } => Some((*from, clock::thread_cpu())),
            _ => None,
        };
        let now = self.now();
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

    /// Handles a message of another node.
    pub(super) fn receive(&mut self, (from, message): PeerMessage) -> Option<MonitorInput> {
        let message = match message {
            Message::Request { message } => {
                self.update_members();
                let number = self.members.iter().find(|it| it.name == from).map(|it| it.node);
                if let Some(number) = number {
                    self.request_thread.remote_message(number, message);
                }
                return None;
            }
            other => other,
        };
        let now = self.now();
        let outputs = self.cluster.receive(now, &from, message);
        self.dispatch(outputs);
        None
    }

    /// Sends the nodes of the cluster to the request thread, if they changed.
    pub(super) fn update_members(&mut self) {
        let Some(links) = &self.links else { return };
        let mut members: Vec<_> = links.others().iter().map(super::cluster_member).collect();
        members.push(super::cluster_member(&self.settings.node));
        members.sort_by_key(|it| it.node);
        if members != self.members {
            self.members.clone_from(&members);
            self.request_thread.set_members(members);
        }
    }

    /// Sends a message of the request thread to another node.
    pub(super) fn send_outgoing(&mut self, to: Node, message: RequestMessage) {
        let name = self.members.iter().find(|it| it.node == to).map(|it| it.name.clone());
        if let (Some(name), Some(links)) = (name, &mut self.links) {
            // If the node cannot be reached, the request engine reports that at its deadline.
            let _ = links.send(&name, Message::Request { message });
        }
    }

    /// Announces the ranks of this node to the other nodes.
    pub(super) fn announce(&mut self, ranks: Vec<RankTarget>) {
        let own = self.cluster.set_ranks(ranks);
        if let Some(links) = &mut self.links {
            links.announce(own);
        }
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
        let Some(links) = &mut self.links else { return };
        if let Err(returned) = links.send(to, message) {
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
                    self.request_thread.list_rules(viewer, tag);
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
