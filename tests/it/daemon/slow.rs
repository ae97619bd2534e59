//! A reading that takes long delays the clients that wait for it, and no others.

use crate::served::Folder;
use crate::socket_session::SocketSession;
use monitor_backend::BackendChoice;
use monitor_backend::{Backend, Error};
use monitor_backends::canned::Canned;
use monitor_cluster::scope::Node;
use monitor_loader::select;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, Sample};
use monitor_server::daemon::{Endpoint, Settings, serve};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A backend whose readings wait for the test.
struct Gated {
    inner: Canned,
    gate: Receiver<()>,
    begun: Sender<()>,
}

impl Backend for Gated {
    fn kind(&self) -> BackendKind {
        self.inner.kind()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.inner.probes()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let _ = self.begun.send(());
        let _ = self.gate.recv();
        self.inner.read(want)
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        self.inner.describe(processes, want);
    }
}

#[test]
fn a_reading_that_takes_long_delays_neither_hello_nor_list_nor_cancel() {
    let folder = Folder::new();
    let (open, gate) = channel();
    let (begun, begins) = channel();
    let backend = Box::new(Gated { inner: Canned::fixed(), gate, begun });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let socket = folder.join("socket");
    let own = socket.clone();
    let service = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let settings = Settings::new(
            Endpoint::Socket(own),
            Node { name: "n".into(), ..Node::default() },
            select::opener(BackendChoice::Auto),
        );
        runtime.block_on(async {
            tokio::select! {
                served = serve(settings, backend, Vec::new()) => served.unwrap(),
                _ = stopped => {}
            }
        });
    });
    let mut waits = SocketSession::connect(&socket);
    let sent = waits.send(
        b"{\"id\":5,\"method\":\"monitor\",\"params\":{\"id\":\"a\",\"every_ns\":1000000000}}\n",
    );
    sent.unwrap();
    begins.recv().unwrap();
    // The reading thread is blocked; all this is answered meanwhile.
    let mut other = SocketSession::connect(&socket);
    assert_eq!(other.call("hello", "{}")["result"]["service"], "monitor");
    assert_eq!(other.call("list", "{}")["result"][0]["id"], "a");
    assert_eq!(other.call("cancel", r#"{"id":"b"}"#)["error"]["code"], -46);
    open.send(()).unwrap();
    let first = waits.next_json().unwrap();
    assert_eq!((&first["id"], &first["result"]["status"]), (&5.into(), &"SUCCESS".into()));
    // A later reading must not wait for ever.
    drop(open);
    stop.send(()).unwrap();
    service.join().unwrap();
}
