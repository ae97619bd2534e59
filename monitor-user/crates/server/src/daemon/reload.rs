//! A new configuration for a service that runs: taken whole, or not at all.
//!
//! In: the configuration that holds, the one that was read. Out: the one that holds from now on,
//! and what of it only a new start takes over. Reads no file itself.

use super::config::{Config, Loaded, Wrong};

/// How a running service reads its configuration again.
pub type Reload = Box<dyn Fn() -> Result<Loaded, Wrong>>;

/// What a new configuration comes to.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// What holds from now on.
    pub config: Config,
    /// What was written and needs a new start, as sentences.
    pub waits: Vec<String>,
}

/// The change from one to the other.
pub fn change(now: &Config, new: Config) -> Change {
    let mut waits = Vec::new();
    if new.socket != now.socket {
        waits.push("socket.path: a new socket needs a new start".to_owned());
    }
    if new.backend != now.backend {
        waits.push("backend.name: another backend needs a new start".to_owned());
    }
    if new.http != now.http {
        waits.push("http: the listener needs a new start; what is in metrics does not".to_owned());
    }
    if new.push != now.push {
        waits.push("otlp: another collector or pace needs a new start".to_owned());
    }
    let (socket, http, push) = (now.socket.clone(), now.http.clone(), now.push.clone());
    let config = Config { socket, http, push, backend: now.backend, ..new };
    Change { config, waits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::select::Choice;

    #[test]
    fn limits_change_and_what_needs_a_new_start_is_said() {
        let now = Config::default();
        let mut new = Config { backend: Choice::Procfs, ..Config::default() };
        new.limits.monitors = 3;
        let change = change(&now, new);
        assert_eq!((change.config.limits.monitors, change.config.backend), (3, Choice::Auto));
        assert_eq!(change.waits, ["backend.name: another backend needs a new start"]);
    }
}
