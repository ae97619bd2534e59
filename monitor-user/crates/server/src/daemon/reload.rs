//! Applies a new configuration to a running daemon: as a whole, or not at all.
//!
//! In: the current configuration and the one that was read. Out: the configuration from now on,
//! and the changes that need a restart. Reads no file itself.

use super::config::{Config, ConfigError, LoadedConfig};

/// Reads the configuration file again.
pub type Reload = Box<dyn Fn() -> Result<LoadedConfig, ConfigError>>;

/// The effect of a new configuration.
#[derive(Debug, PartialEq)]
pub struct ConfigChange {
    /// The configuration from now on.
    pub config: Config,
    /// Changes that need a restart, one sentence each.
    pub need_restart: Vec<&'static str>,
}

/// The change from `now` to `new`.
pub fn change(now: &Config, new: Config) -> ConfigChange {
    let changes = [
        (new.socket != now.socket, "socket.path: another socket needs a restart"),
        (new.backend != now.backend, "backend.name: another backend needs a restart"),
        (new.files != now.files, "files.socket: another socket needs a restart"),
        (
            new.files_listen != now.files_listen,
            "files: another listener or certificate needs a restart",
        ),
        (new.execute != now.execute, "files.execute: other users need a restart"),
        (new.http != now.http, "http: the listener needs a restart; changes of [metrics] do not"),
        (new.cluster != now.cluster, "cluster: another cluster needs a restart"),
        (new.push != now.push, "otlp: another collector, period or compression needs a restart"),
    ];
    let need_restart = changes.into_iter().filter(|it| it.0).map(|it| it.1).collect();
    let (socket, http, push) = (now.socket.clone(), now.http.clone(), now.push.clone());
    let (files, execute, backend) = (now.files.clone(), now.execute.clone(), now.backend);
    let (cluster, files_listen) = (now.cluster.clone(), now.files_listen.clone());
    let config =
        Config { socket, files, files_listen, execute, http, push, backend, cluster, ..new };
    ConfigChange { config, need_restart }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::BackendChoice;

    #[test]
    fn limits_change_at_once_and_a_backend_needs_a_restart() {
        let now = Config::default();
        let mut new = Config { backend: BackendChoice::Procfs, ..Config::default() };
        new.limits.monitors = 3;
        let change = change(&now, new);
        assert_eq!(
            (change.config.limits.monitors, change.config.backend),
            (3, BackendChoice::Auto)
        );
        assert_eq!(change.need_restart, ["backend.name: another backend needs a restart"]);
    }
}
