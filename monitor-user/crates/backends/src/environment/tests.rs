//! Readings of a recorded node, and of one that has nothing.

use super::values::MAX_VALUES;
use super::*;
use monitor_model::environment::ChangeRule;

const SERVER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixture/environment/server.txt");

/// A folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("monitor-environment-{}-{test}", std::process::id());
        let it = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&it.0).unwrap();
        it
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The recorded node in a folder, which the test may change.
fn server(test: &str) -> Folder {
    let folder = Folder::new(test);
    for line in fs::read_to_string(SERVER).unwrap().lines().filter(|it| !it.starts_with('#')) {
        let (path, text) = line.split_once(' ').unwrap();
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("\\n", "\n") + "\n").unwrap();
    }
    folder
}

/// The values of a source, each as a line; counters of 0 are left out.
fn lines(root: &Path, source: EnvironmentSource) -> Vec<String> {
    let all = EnvironmentReader::new(root).read().into_iter();
    let of_source = all.filter(|it| it.key.source == source && it.value != 0);
    of_source.map(|it| format!("{} {} {}", it.key.what, it.key.kind, it.value)).collect()
}

#[test]
fn each_source_of_a_recorded_node_has_its_values() {
    let folder = server("values");
    let check = |source, want: &[&str]| assert_eq!(lines(folder.path(), source), want);
    let module = "mc0/dimm0 CPU_SrcID#0_MC#0_Chan#0_DIMM#0 corrected 2";
    check(EnvironmentSource::Ecc, &[module, "mc0 corrected 1", "mc1 corrected 7"]);
    check(EnvironmentSource::MachineCheck, &["cpu1 threshold 6"]);
    let throttled = ["package0 package-throttled 4", "cpu1 core-throttled 5"];
    let zone = "zone0 x86_pkg_temp passive-90000 61000";
    check(EnvironmentSource::Thermal, &[&throttled[..], &[zone]].concat());
    check(EnvironmentSource::Infiniband, &["mlx5_0/1 active 1", "mlx5_0/1 link_downed 2"]);
    check(EnvironmentSource::Pcie, &["0000:3b:00.0 correctable 3"]);
    check(EnvironmentSource::Oom, &["node kill 2"]);
}

#[test]
fn a_zone_has_the_limit_of_its_trip_point() {
    let folder = server("limit");
    let all = EnvironmentReader::new(folder.path()).read();
    let zone = all.iter().find(|it| it.key.what.starts_with("zone")).unwrap();
    assert_eq!(zone.rule, ChangeRule::Limit { limit: 90_000, hysteresis: 2000 });
}

#[test]
fn a_port_that_is_down_is_not_active() {
    let folder = server("port");
    let state = folder.path().join("sys/class/infiniband/mlx5_0/ports/1/state");
    fs::write(state, "1: DOWN\n").unwrap();
    assert_eq!(lines(folder.path(), EnvironmentSource::Infiniband), ["mlx5_0/1 link_downed 2"]);
}

#[test]
fn a_node_without_sources_says_what_it_lacks() {
    let folder = Folder::new("none");
    let reader = EnvironmentReader::new(folder.path());
    assert_eq!(reader.read(), []);
    let missing = reader.sources();
    assert_eq!(missing.len(), EnvironmentSource::ALL.len());
    assert_eq!(missing[0].values, Err("no memory controller has an EDAC driver"));
}

#[test]
fn this_node_is_read_without_an_error() {
    let all = EnvironmentReader::new(Path::new("/")).read();
    assert!(all.len() <= EnvironmentSource::ALL.len() * MAX_VALUES);
}
