//! Groups beside what ClusterShell 1.9.1 makes of the same files, in `tests/fixture/clustershell`.

use super::*;
use monitor_cluster::node_set::{expand, fold};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/clustershell").join(name)
}

/// A set with the nodes of its groups, folded; or the error.
fn folded(text: &str) -> Result<String, String> {
    let groups = Groups::from_files(vec![fixture("no-such"), fixture("groups.conf")]);
    let lookup = ConfiguredGroups(OnceCell::from(groups));
    let resolved = resolve_groups(text, &lookup).map_err(|error| error.to_string())?;
    let names = expand(&resolved, &BTreeSet::new()).map_err(|error| error.to_string())?;
    Ok(fold(names.iter().map(String::as_str)))
}

#[test]
fn groups_have_the_nodes_that_nodeset_prints() {
    let recorded = std::fs::read_to_string(fixture("recorded.txt")).unwrap();
    let lines: Vec<&str> = recorded.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &lines {
        let (text, want) = line.split_once('\t').unwrap();
        assert_eq!(folded(text).as_deref(), Ok(want), "{text}");
    }
    assert_eq!(lines.len(), 17);
}

#[test]
fn what_is_no_group_is_named_with_the_nearest() {
    let check = |text: &str, want: &str| assert_eq!(folded(text).unwrap_err(), want);
    check("@gpuu", "group \"@gpuu\": source \"local\" has no such group: the nearest is \"gpu\"");
    check(
        "@racks:bot",
        "group \"@racks:bot\": source \"racks\" has no such group: the nearest is \"both\"",
    );
    check(
        "@rack:r1",
        "group \"@rack:r1\": there is no source \"rack\" of groups: the nearest is \"racks\"",
    );
    check("@odd:*", "group \"@odd:*\": source \"odd\" has neither \"all\" nor \"list\"");
    // A group that is known may be empty.
    assert_eq!(folded("@none").as_deref(), Ok(""));
    let none = ConfiguredGroups(OnceCell::from(Groups::from_files(vec![fixture("no-such")])));
    let why = resolve_groups("n1,@gpu", &none).unwrap_err().to_string();
    assert!(why.starts_with("group \"@gpu\": no groups are configured in "), "{why}");
}
