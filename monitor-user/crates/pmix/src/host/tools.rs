//! Tools that connect to the host: debuggers, and the commands of this program.
//!
//! In: what a tool says of itself; it is one of the user of the job or of root, because connections
//! of others do not come to the library. Out: its name.

use super::Host;
use super::job_data;
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::libpmix::Reply;

impl Host {
    /// A process of another user has connected; the first time, a notice says so.
    pub(super) fn refused(&mut self, owner: Option<u32>) {
        let text = owner
            .map_or_else(|| "no user that can be found".to_owned(), |uid| format!("user {uid}"));
        if self.refused.insert(owner) {
            self.notice(&format!(
                "a connection to the host of the job was refused: its socket belongs to {text}"
            ));
        }
    }

    /// A tool gets the name that it wants, or one of this host.
    pub(super) fn tool_connected(&mut self, attributes: &[Attribute], reply: Reply) {
        tracing::debug!(?attributes, "tool");
        self.tools += 1;
        let wanted = find(attributes, "pmix.tool.nspace").and_then(Datum::as_str);
        let rank = find(attributes, "pmix.tool.rank").and_then(Datum::number);
        let name = match wanted {
            Some(nspace) => {
                let rank = rank.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
                ProcName { nspace: nspace.to_owned(), rank }
            }
            None => {
                ProcName { nspace: format!("{}.tool.{}", job_data::SERVER, self.tools), rank: 0 }
            }
        };
        reply.admitted(&name);
    }
}
