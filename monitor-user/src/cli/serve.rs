//! `monitor serve`: the service, until it is told to end.
//!
//! In: words, the environment, the file. Out: one configuration; what was said last, closest to
//! the start, holds. The file is read again when the service is told to.

use super::args::Serve;
use super::exit::{Exit, Failure};
use super::log;
use super::settings::{self, Said};
use crate::backend::host::ProcOptions;
use crate::backend::select;
use crate::daemon::{self, Settings};
use crate::meter::need;
use crate::model::scope::Scope;
use crate::serve::policy::Hidden;
use crate::sys::files;
use std::path::Path;

/// Serves.
pub fn serve(args: &Serve) -> Result<Exit, Failure> {
    let said = Said { socket: args.socket.clone(), backend: args.backend, log: log::wanted() };
    let file = args.config.clone();
    // A connection is a descriptor, and half of them are for reading.
    let room = files::raise().map_or(usize::MAX, |most| usize::try_from(most / 2).unwrap_or(0));
    let reload = move || {
        let mut loaded = settings::read(file.as_deref(), &said)?;
        let all = &mut loaded.config.door.all_connections;
        *all = room.min(*all);
        Ok(loaded)
    };
    let loaded = reload().map_err(settings::told)?;
    let log = log::service(loaded.config.log);
    let path = settings::socket(&loaded.config)?;
    let always = need::capabilities(Scope::Processes, &[], &[]);
    let (backend, opening) = select::open(loaded.config.backend, &always, 0)?;
    for note in &opening {
        tracing::warn!("{}", note.text);
    }
    let settings =
        Settings { socket: path.clone(), loaded, hidden: hidden(), reload: Box::new(reload), log };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("start the event loop", &error))?;
    let served = runtime.block_on(daemon::serve(settings, backend, opening));
    served.map_err(|error| failed(&format!("serve on {}", path.display()), &error))?;
    Ok(Exit::Ok)
}

/// What `/proc` keeps from users here.
fn hidden() -> Hidden {
    let ProcOptions { hidepid, except } = ProcOptions::read(Path::new("/"));
    hidepid.map_or(Hidden::Nothing, |_| Hidden::Others { except })
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
