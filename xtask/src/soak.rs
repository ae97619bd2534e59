//! `cargo xtask soak [--for TIME] [--seed N]`: random workloads, tools and kills, for a time.
//! `cargo xtask soak requests [--rounds N] [--seed N]`: programs that end at events.
//! `cargo xtask soak jobs [--rounds N] [--seed N]`: commands on jobs, some killed.
//! `cargo xtask soak files [--rounds N] [--seed N]`: flushes, limits and hostile bytes over 9P.
//! `cargo xtask soak copies [--nodes N]`: a program copied to many nodes, over a tree or not.
//! `cargo xtask soak cluster [--nodes N] [--rounds N] [--seed N]`: commands to many nodes, while
//! servers, nodes and networks are lost.
//! `cargo xtask soak simulator [--nodes N] [--rounds N] [--seed N]`: commands to many nodes over a
//! simulated network, with many seeds, and then a long run of one.
//! `cargo xtask soak gdb`: all sessions of gdb, compared with gdb's own server.
//! `cargo xtask soak shared [--for TIME] [--seed N]`: programs of two debuggers, a rule and `top`.
//!
//! In: the kind, how long, and the seed; without one, a new one. Out: the output of
//! `tests/it/soak`, which prints the seed, and on failure what the round did. Needs root.

use crate::arguments::{Arguments, Takes};
use crate::autogroup;
use crate::nats;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::PACKAGE;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const KILLS: &str = "soak::root_whatever_is_killed_no_program_is_harmed_and_nothing_is_left";
const REQUESTS: &str =
    "soak::requests::root_whichever_way_a_program_ends_at_an_event_its_parent_can_wait_for_it";

/// Two tests.
const JOBS: &str = "soak::jobs::root_whichever_command_is_killed_a_job_ends_with_its_own_status \
     soak::job_attached::root_a_job_that_is_attached_to_again_and_again_ends_with_its_own_status";
/// Three tests.
const FILES: &str = "soak::files::no_flush_at_any_time_loses_or_repeats_a_byte \
     soak::files_silent::clients_that_say_nothing_or_stall_in_a_handshake_are_closed \
     soak::files::root_more_connections_and_fids_than_there_may_be_are_refused_by_name";
/// Tests of the protocol alone, with how much of it, as variables of their environment.
const PROTOCOL: &str = "tests::hostile::random_messages_never_panic_and_memory_is_bounded \
     tests::hostile::a_session_cut_anywhere_gives_the_same_replies";
const PROTOCOL_LENGTH: [(&str, &str); 2] =
    [("MONITOR_NINEP_MESSAGES", "10000000"), ("MONITOR_NINEP_CUTS", "10000")];
/// Connections of `soak files`.
const CONNECTIONS: &str = "1000";
/// A test of the crate `nats`: on one server, and on three. Rounds are commands.
const CLUSTER: &str = "soak::whatever_is_lost_of_many_nodes_and_their_server_outcomes_are_true";
/// The program of its servers, instead of that of this machine. Three are those of `cargo xtask
/// nats`: copies of the order of 2.9.10 are not equal after many kills.
const NATS_SERVER: &str = "MONITOR_NATS_SERVER";
/// Number of commands, nodes, faults of each kind, and seconds without a server at the end.
const CLUSTER_COMMANDS: u64 = 20_000;
const CLUSTER_NODES: u64 = 100;
const CLUSTER_LENGTH: [(&str, &str); 2] =
    [("MONITOR_SOAK_FAULTS", "20"), ("MONITOR_SOAK_OUTAGE", "60")];
/// A test of the crate `cluster`. Rounds are seeds.
const SIMULATOR: &str = "command::simulator::each_outcome_is_true_whatever_fails";
const SIMULATOR_SEEDS: u64 = 1_000;
const SIMULATOR_NODES: u64 = 300;
/// Commands of each seed, and of the long run.
const SIMULATOR_COMMANDS: [u64; 2] = [100, 100_000];
/// Optimized, and an overflow is a panic.
const PROFILE: &str = "fuzz";
const SHARED: &str = "gdb::shared::root_two_debuggers_and_a_rule_share_programs_on_a_screen";
const COPIES: &str = "soak::files_tree::root_a_tree_of_four_takes_less_than_copies_from_the_source";
const SESSIONS: &str = "gdb::sessions::root_all_sessions_are_those_of_gdbserver";

/// A kind; a time for the kills, rounds for the requests.
pub const TAKES: Takes = Takes {
    options: &[("--for", "TIME"), ("--nodes", "N"), ("--rounds", "N"), ("--seed", "N")],
    operands: "requests | jobs | files | copies | cluster | simulator | gdb | shared",
    ..Takes::NOTHING
};

/// Runs the rounds of one of the tests.
pub fn run(arguments: &Arguments) -> Outcome {
    let seed = match number(arguments, "--seed")? {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
    };
    let (test, variable, length) = length(arguments)?;
    if test == CLUSTER {
        let nodes = number(arguments, "--nodes")?.unwrap_or(CLUSTER_NODES);
        let mut commands = ["1", "3"].map(|servers| cluster(servers, [length, nodes, seed]));
        if std::env::var_os(NATS_SERVER).is_none() {
            commands[1].env(NATS_SERVER, nats::program()?);
        }
        return commands.iter_mut().try_for_each(step::run);
    }
    if test == SIMULATOR {
        let nodes = number(arguments, "--nodes")?.unwrap_or(SIMULATOR_NODES);
        let [few, many] = SIMULATOR_COMMANDS;
        let mut commands = [(length, few), (1, many)]
            .map(|(seeds, commands)| simulator([seeds, commands, nodes, seed]));
        return commands.iter_mut().try_for_each(step::run);
    }
    let mut command = step::cargo();
    command.args(["test", "--locked", "--all-features", "--package", PACKAGE, "--test=it"]);
    command.args(["--", "--exact"]).args(test.split(' ')).args(["--test-threads=1", "--nocapture"]);
    command.env("MONITOR_REQUIRE_ROOT", "1");
    command.env(variable, length.to_string());
    command.env("MONITOR_SOAK_CONNECTIONS", CONNECTIONS);
    let _off = autogroup::Off::begin();
    if test == FILES {
        step::run(&mut protocol())?;
    }
    step::run(command.env("MONITOR_SOAK_SEED", seed.to_string()))
}

/// Commands, nodes and the seed, with this number of servers.
fn cluster(servers: &str, [commands, nodes, seed]: [u64; 3]) -> Command {
    let mut command = optimized("monitor-nats", CLUSTER);
    command.envs(CLUSTER_LENGTH).env("MONITOR_SOAK_SERVERS", servers);
    command.env("MONITOR_SOAK_COMMANDS", commands.to_string());
    command.env("MONITOR_SOAK_NODES", nodes.to_string());
    command.env("MONITOR_SOAK_SEED", seed.to_string());
    command
}

/// Seeds from this one on, commands of each, and nodes.
fn simulator([seeds, commands, nodes, seed]: [u64; 4]) -> Command {
    let mut command = optimized("monitor-cluster", SIMULATOR);
    command.env("MONITOR_SIMULATOR_SEEDS", seeds.to_string());
    command.env("MONITOR_SIMULATOR_COMMANDS", commands.to_string());
    command.env("MONITOR_SIMULATOR_NODES", nodes.to_string());
    command.env("MONITOR_SIMULATOR_SEED", seed.to_string());
    command
}

/// A test of a crate alone.
fn optimized(package: &str, test: &str) -> Command {
    let mut command = step::cargo();
    command.args(["test", "--locked", "--profile", PROFILE, "--package", package, "--lib", "--"]);
    command.args(["--exact", test, "--test-threads=1", "--nocapture"]);
    command
}

/// Random messages and cuts, which need no service.
fn protocol() -> Command {
    let mut command = step::cargo();
    command.args(["test", "--locked", "--release", "--package", "monitor-ninep", "--lib", "--"]);
    command.args(["--exact"]).args(PROTOCOL.split(' ')).args(["--test-threads=1", "--nocapture"]);
    command.envs(PROTOCOL_LENGTH);
    command
}

/// The tests, and how long they run, as a variable of its environment.
fn length(arguments: &Arguments) -> Result<(&'static str, &'static str, u64), String> {
    let words: Vec<&str> = arguments.operands.iter().map(String::as_str).collect();
    match words[..] {
        ["copies"] if ["--for", "--rounds"].iter().any(|it| arguments.value(it).is_some()) => {
            Err("`soak copies` runs once; it has --nodes N, no --for and no --rounds".to_owned())
        }
        ["copies"] => {
            Ok((COPIES, "MONITOR_SOAK_NODES", number(arguments, "--nodes")?.unwrap_or(64)))
        }
        ["cluster" | "simulator" | "requests" | "jobs" | "files"]
            if arguments.value("--for").is_some() =>
        {
            Err("--for is not for this soak; use --rounds N".to_owned())
        }
        ["cluster"] => {
            let commands = number(arguments, "--rounds")?.unwrap_or(CLUSTER_COMMANDS);
            Ok((CLUSTER, "MONITOR_SOAK_COMMANDS", commands))
        }
        ["simulator"] => {
            let seeds = number(arguments, "--rounds")?.unwrap_or(SIMULATOR_SEEDS);
            Ok((SIMULATOR, "MONITOR_SIMULATOR_SEEDS", seeds))
        }
        _ if arguments.value("--nodes").is_some() => {
            Err("--nodes is for `soak copies`, `cluster` and `simulator`".to_owned())
        }
        [] if arguments.value("--rounds").is_some() => {
            Err("--rounds is for `soak requests`, `jobs` and `files`; else use --for TIME"
                .to_owned())
        }
        [] => Ok((KILLS, "MONITOR_SOAK_SECONDS", seconds(arguments, "30m")?)),
        ["shared"] if arguments.value("--rounds").is_some() => {
            Err("--rounds is for `soak requests`; `soak shared` has --for TIME".to_owned())
        }
        ["shared"] => Ok((SHARED, "MONITOR_SOAK_SECONDS", seconds(arguments, "10m")?)),
        ["gdb"] if ["--for", "--rounds"].iter().any(|it| arguments.value(it).is_some()) => {
            Err("`soak gdb` runs each session once; it has no --for and no --rounds".to_owned())
        }
        ["gdb"] => Ok((SESSIONS, "MONITOR_GDB_ROUNDS", 1)),
        ["jobs"] => {
            let rounds = number(arguments, "--rounds")?.unwrap_or(100);
            Ok((JOBS, "MONITOR_SOAK_ROUNDS", rounds))
        }
        ["files"] => {
            let rounds = number(arguments, "--rounds")?.unwrap_or(200);
            Ok((FILES, "MONITOR_SOAK_ROUNDS", rounds))
        }
        ["requests"] => {
            let rounds = number(arguments, "--rounds")?.unwrap_or(1000);
            Ok((REQUESTS, "MONITOR_SOAK_ROUNDS", rounds))
        }
        _ => {
            let words = words.join(" ");
            Err(format!(
                "there is no soak `{words}`; there are `requests`, `jobs`, `files`, `copies`, \
                 `cluster`, `simulator`, `gdb` and `shared`"
            ))
        }
    }
}

fn seconds(arguments: &Arguments, default: &str) -> Result<u64, String> {
    let text = arguments.value("--for").unwrap_or(default);
    let time = duration(text);
    time.map(|it| it.as_secs()).ok_or_else(|| format!("--for {text}: not a time such as 30m"))
}

fn number(arguments: &Arguments, option: &str) -> Result<Option<u64>, String> {
    let parse = |text: &str| text.parse().map_err(|error| format!("{option} {text}: {error}"));
    arguments.value(option).map(parse).transpose()
}

/// `90s`, `30m` or `2h`.
pub fn duration(text: &str) -> Option<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let of = |(unit, seconds)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, seconds));
    let (number, seconds) = units.into_iter().find_map(of)?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let seconds = |text| duration(text).map(|it| it.as_secs());
        assert_eq!(
            [seconds("90s"), seconds("30m"), seconds("2h")],
            [Some(90), Some(1800), Some(7200)]
        );
        assert_eq!([seconds("30"), seconds("m"), seconds("-1s")], [None; 3]);
    }

    #[test]
    fn each_kind_has_its_own_length() {
        let of = |words: &[&str]| length(&Arguments::parse(words, &TAKES).expect("they are known"));
        assert_eq!(of(&[]), Ok((KILLS, "MONITOR_SOAK_SECONDS", 1800)));
        assert_eq!(of(&["--for", "90s"]), Ok((KILLS, "MONITOR_SOAK_SECONDS", 90)));
        assert_eq!(of(&["requests"]), Ok((REQUESTS, "MONITOR_SOAK_ROUNDS", 1000)));
        assert_eq!(of(&["requests", "--rounds=7"]), Ok((REQUESTS, "MONITOR_SOAK_ROUNDS", 7)));
        assert_eq!(of(&["jobs"]), Ok((JOBS, "MONITOR_SOAK_ROUNDS", 100)));
        assert_eq!(of(&["files"]), Ok((FILES, "MONITOR_SOAK_ROUNDS", 200)));
        assert_eq!(of(&["gdb"]), Ok((SESSIONS, "MONITOR_GDB_ROUNDS", 1)));
        assert_eq!(of(&["shared"]), Ok((SHARED, "MONITOR_SOAK_SECONDS", 600)));
        assert_eq!(of(&["copies"]), Ok((COPIES, "MONITOR_SOAK_NODES", 64)));
        assert_eq!(of(&["copies", "--nodes=9"]), Ok((COPIES, "MONITOR_SOAK_NODES", 9)));
        assert_eq!(of(&["cluster"]), Ok((CLUSTER, "MONITOR_SOAK_COMMANDS", 20_000)));
        assert_eq!(of(&["cluster", "--rounds=9"]), Ok((CLUSTER, "MONITOR_SOAK_COMMANDS", 9)));
        assert_eq!(of(&["simulator"]), Ok((SIMULATOR, "MONITOR_SIMULATOR_SEEDS", 1000)));
        for words in [
            &["--rounds", "7"][..],
            &["copies", "--rounds", "7"],
            &["cluster", "--for", "1m"],
            &["jobs", "--nodes", "7"],
            &["requests", "--for", "1m"],
            &["gdb", "--rounds", "7"],
            &["shared", "--rounds", "7"],
            &["replies"],
        ] {
            assert!(of(words).is_err(), "{words:?}");
        }
    }
}
