//! What the loop does with what comes out of the engine: to a client, to the thread that reads,
//! to another node.

use super::Loop;
use super::sampler::{Job, Work};
use monitor_cluster::Act;
use monitor_cluster::link::Letter;
use monitor_cluster::message::{Message, RequestLetter};
use monitor_model::id::Ns;
use monitor_model::request::Rank;
use monitor_monitors::{About, Answer, Input, Look, Output};
use monitor_omis::Node;
use monitor_sys::clock;

impl Loop {
    /// Gives an input to the cluster, and does what comes of it.
    pub(super) fn input(&mut self, input: Input) {
        if let (Input::Called { .. }, Some(link)) = (&input, &self.link) {
            self.cluster.meet(link.others());
        }
        let now = self.now();
        let acts = self.cluster.input(now, input);
        self.act(acts);
    }

    /// The time for whom it is a value; both clocks, as the realtime clock may be set.
    fn now(&mut self) -> Ns {
        let now = clock::now();
        self.cluster.set_clock(now);
        now.boot
    }

    /// Tells the thread when something else is needed than before: ahead of who looks for it.
    fn tell_needed(&mut self) {
        let needed = self.needed();
        if needed != self.told {
            self.told.clone_from(&needed);
            self.send(Job::Need(needed));
        }
    }

    /// What another node sent.
    pub(super) fn receive(&mut self, (from, message): Letter) -> Option<Input> {
        let message = match message {
            Message::Request { letter } => {
                self.meet();
                let number = self.members.iter().find(|it| it.name == from).map(|it| it.node);
                if let Some(number) = number {
                    self.hand.letter(number, letter);
                }
                return None;
            }
            other => other,
        };
        let now = self.now();
        let acts = self.cluster.receive(now, &from, message);
        self.act(acts);
        None
    }

    /// Tells the thread that acts which nodes there are, if they are others than before.
    pub(super) fn meet(&mut self) {
        let Some(link) = &self.link else { return };
        let mut members: Vec<_> = link.others().iter().map(super::member).collect();
        members.push(super::member(&self.settings.node));
        members.sort_by_key(|it| it.node);
        if members != self.members {
            self.members.clone_from(&members);
            self.hand.meet(members);
        }
    }

    /// Sends what the thread that acts has to say.
    pub(super) fn write(&mut self, to: Node, letter: RequestLetter) {
        let name = self.members.iter().find(|it| it.node == to).map(|it| it.name.clone());
        if let (Some(name), Some(link)) = (name, &mut self.link) {
            // Whoever is out of reach is missed by those who wait for him, at their deadline.
            let _ = link.send(&name, Message::Request { letter });
        }
    }

    /// Tells the other nodes which ranks are here.
    pub(super) fn announce(&mut self, ranks: Vec<Rank>) {
        let own = self.cluster.inhabit(ranks);
        if let Some(link) = &mut self.link {
            link.announce(own);
        }
    }

    fn act(&mut self, acts: Vec<Act>) {
        self.tell_needed();
        for act in acts {
            match act {
                Act::Here(output) => self.deliver(output),
                Act::Send { to, message } => self.send_to(&to, message),
            }
        }
    }

    fn send_to(&mut self, to: &str, message: Message) {
        let Some(link) = &mut self.link else { return };
        if let Err(back) = link.send(to, message) {
            let acts = self.cluster.unreachable(clock::boot(), to, &back);
            self.act(acts);
        }
    }

    fn deliver(&mut self, output: Output) {
        match output {
            Output::Reply { to, tag, answer } => {
                if let Ok(Answer::Sample { event, .. }) = &answer {
                    self.account.gave(Ns(event.late_ns));
                }
                self.clients.reply(to, &tag, answer);
            }
            Output::Event { to, event } => {
                if event.sample.is_some() {
                    self.account.gave(Ns(event.late_ns));
                }
                self.clients.event(to, event);
            }
            Output::Look(looks) => self.look(looks),
            Output::LookAt(at) => self.files.look(at),
            Output::Claims(claims) => self.send(Job::Claims(claims)),
            Output::Asked { to, tag, about: About::Service } => {
                self.clients.reply(to, &tag, Ok(self.own()));
            }
            Output::Asked { to, tag, about: About::Rules } => {
                if let Some(viewer) = self.clients.viewer(to) {
                    self.hand.rules(viewer, tag);
                }
            }
            Output::Asked { to, tag, about: About::Probes } => self.examine(to, tag),
            Output::Asked { to, tag, about: About::Flight(asked) } => {
                self.send(Job::Hand { to, tag, asked });
            }
        }
    }

    fn look(&mut self, looks: Vec<Look>) {
        self.account.read();
        let shed = self.account.shed();
        self.send(Job::Look(Work { looks, shed }));
    }

    /// Gives work to the thread that reads.
    pub(super) fn send(&self, job: Job) {
        // It lives as long as this does.
        let _ = self.sampler.work.send(job);
    }
}
