//! A host where nothing works gets a reason, not silence.

use monitor_backend::Backend;
use monitor_backends::unsupported::Unsupported;
use monitor_model::read_spec::ReadSpec;

#[test]
fn every_reading_is_refused_with_the_reason() {
    let mut backend = Unsupported::new("/proc is not mounted", "mount -t proc proc /proc");
    let error = backend.read(&ReadSpec::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading statistics is not supported here: /proc is not mounted; mount -t proc proc /proc"
    );
    assert!(backend.probes().iter().all(monitor_model::probe::Probe::degraded));
}
