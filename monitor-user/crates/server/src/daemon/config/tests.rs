//! A file is applied as a whole, or every fault in it is reported.

use super::*;
use crate::policy::Grantee;

#[track_caller]
fn faults(text: &str, want: &[(usize, &str, &str)]) {
    let faults = from_text(text).expect_err("the file has a fault");
    let got: Vec<_> =
        faults.iter().map(|it| (it.line, it.key.as_str(), it.message.as_str())).collect();
    assert_eq!(got, want);
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(from_text("").map(|it| it.0), Ok(Config::default()));
}

#[test]
fn a_value_is_read_with_its_line() {
    let text = "# ours\n[limits]\nmonitors = 7\nperiod = \"1s\"\n[policy]\nobserve-all = [12]\n";
    let (config, lines) = from_text(text).expect("the file is valid");
    assert_eq!((config.limits.monitors, config.limits.period_ns), (7, 1_000_000_000));
    assert_eq!(config.grants[1], [Grantee::User(12)]);
    let line = |name| lines[KEYS.iter().position(|key| key.name == name).expect("a key")];
    assert_eq!((line("monitors"), line("observe-all"), line("lease")), (Some(3), Some(6), None));
}

#[test]
fn every_fault_is_reported_with_its_line_and_key() {
    faults(
        "[limits]\nmonitrs = 7\nperiod = 3\n[polcy]\n[log]\nlevel = \"loud\"\n",
        &[
            (2, "limits.monitrs", r#"unknown key "monitrs"; did you mean "monitors"?"#),
            (3, "limits.period", "expected a time such as \"10ms\" or \"7d\", found integer"),
            (4, "polcy", r#"unknown section "polcy"; did you mean "policy"?"#),
            (
                6,
                "log.level",
                r#"unknown level "loud": there are off, error, warn, info, debug, trace"#,
            ),
        ],
    );
}

#[test]
fn syntax_errors_do_not_hide_other_faults() {
    let faults = from_text("[limits]\nmonitors = \nlease = 5\n").expect_err("the file has a fault");
    assert_eq!(faults.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 3], "{faults:?}");
}

#[test]
fn a_section_that_is_a_value_is_reported() {
    faults(
        "limits = 3\n",
        &[(1, "limits", "expected a section: write [limits] and its keys below it")],
    );
}

#[test]
fn the_defaults_can_be_read_back_as_they_are_shown() {
    let mut text = String::new();
    let config = Config { socket: Some("/run/x".into()), ..Config::default() };
    for key in KEYS {
        text += &format!("{}.{} = {}\n", key.section, key.name, key.show(&config));
    }
    assert_eq!(from_text(&text).map(|it| it.0), Ok(config), "{text}");
}

#[test]
fn the_shipped_file_shows_every_key_with_its_default() {
    let shipped = include_str!("../../../../../../tests/packaging/monitor.toml");
    assert_eq!(from_text(shipped).map(|it| it.0), Ok(Config::default()));
    let whole: Vec<_> = shipped
        .lines()
        .map(|line| line.strip_prefix('#').filter(|it| !it.starts_with(' ')).unwrap_or(line))
        .collect();
    let (config, lines) = from_text(&whole.join("\n")).expect("the file is valid");
    let socket = Some("/run/monitor/monitor.sock".into());
    assert_eq!(config, Config { socket, ..Config::default() });
    assert!(lines.iter().all(Option::is_some), "{lines:?}");
}

#[test]
fn random_text_never_panics() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = ["[limits]", "monitors", "=", "\n", "\"", "[", "]", "7", "\u{fffd}", ".", "{", "#"];
    for _ in 0..2000 {
        let mut text = String::new();
        for _ in 0..20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text += words[(state >> 33) as usize % words.len()];
        }
        let _ = from_text(&text);
    }
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("monitor-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("monitor.toml");
    std::fs::write(&file, "").unwrap();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        LoadedConfig::read(Some(&file)).map_err(|why| why.lines().collect::<Vec<_>>().join("\n"))
    };
    assert!(allow(&file, 0o644).is_ok());
    let refused = |what| {
        let why = format!("other users may write to {what}: chmod go-w it");
        Err(format!("{}: {why}", file.display()))
    };
    assert_eq!(allow(&file, 0o646).map(drop), refused("the file"));
    assert_eq!(allow(&file, 0o664).map(drop), refused("the file"));
    assert!(allow(&file, 0o640).is_ok());
    assert_eq!(allow(&folder, 0o777).map(drop), refused("its folder"));
    assert!(allow(&folder, 0o755).is_ok());
    std::fs::remove_dir_all(folder).unwrap();
}
