//! A consumer of the order: entries from a position on, or the last one of each subject.
//!
//! In: the stream, where to begin, a filter. Out: messages, and how many there are. Its name is
//! random: a node that knew the name of a consumer could change it. It ends by itself when it has
//! no subscriber for a while. Whether messages are missing is for the reader to see, by their
//! consumer sequence.

use super::failure::{Failed, failed};
use async_nats::datetime::DateTime;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::push::{Config, Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Stream;
use std::time::Duration;

/// Time between two signs of life of a consumer without messages: each wakes its node. Whether
/// entries are missing is asked more often where that matters.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long a consumer remains when its node is gone.
const INACTIVE: Duration = Duration::from_secs(30);

/// A consumer with its messages.
pub struct Deliveries {
    /// Number of messages there are.
    pub n_pending: u64,
    /// The messages.
    pub messages: Messages,
    /// When the server made it, by its clock.
    pub created: DateTime,
    /// The server that has it, if there are several.
    pub host: Option<String>,
}

/// Makes a consumer of the entries whose subject fits.
pub async fn consume(
    (jetstream, stream): (&Context, &Stream),
    question: &'static str,
    (deliver_policy, filter_subject): (DeliverPolicy, &str),
) -> Result<Deliveries, Failed> {
    let deliver_subject = jetstream.client().new_inbox();
    let name = deliver_subject.rsplit('.').next().map(str::to_owned);
    let config = Config {
        name,
        deliver_subject,
        deliver_policy,
        filter_subject: filter_subject.to_owned(),
        ack_policy: AckPolicy::None,
        max_deliver: 1,
        flow_control: true,
        idle_heartbeat: HEARTBEAT,
        inactive_threshold: INACTIVE,
        memory_storage: true,
        num_replicas: 1,
        ..Config::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(failed(question))?;
    let about = consumer.cached_info();
    let (n_pending, created) = (about.num_pending, about.created);
    let host = about.cluster.as_ref().and_then(|it| it.leader.clone());
    let messages = consumer.messages().await.map_err(failed(question))?;
    Ok(Deliveries { n_pending, messages, created, host })
}
