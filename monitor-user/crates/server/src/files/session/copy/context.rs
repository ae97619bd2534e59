//! What copies need of their service.

use monitor_remote::Connector;
use monitor_sys::random;
use tokio::sync::Semaphore;

/// Copies that the service sends at a time; further ones wait.
const SENT_COPIES: usize = 128;
/// Random bytes of the name of a service.
const NAME_BYTES: usize = 8;

/// What copies need of their service.
#[derive(Debug)]
pub struct CopyContext {
    /// Connects to other services.
    pub connector: Connector,
    /// Permits of copies while their files are sent.
    pub sent: Semaphore,
    /// A name that no other service has, nor this one after another start.
    name: String,
}

impl CopyContext {
    /// With what connects to other nodes.
    pub fn new(connector: Connector) -> Self {
        // Without random bytes there are no keys either, so that no copy is compared with this.
        let name = random::hex::<NAME_BYTES>().unwrap_or_default();
        Self { connector, sent: Semaphore::new(SENT_COPIES), name }
    }

    /// The id of a session that no other has.
    pub fn session_id(&self, number: u32) -> String {
        format!("{}/{number}", self.name)
    }
}
