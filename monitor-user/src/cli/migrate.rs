//! `monitor migrate`: a process of this node goes on on another one.
//!
//! In: a process, a node. Out: where the process runs, and how long it was frozen. The migration
//! goes on when this command has ended; `--list` shows what has no outcome yet.

use super::args::daemon::MigrateArgs;
use super::client::with_daemon;
use super::exit::{Exit, Failure};
use super::output::{json, notice, print, report};
use monitor_client::{
    ListedMigration, ListedMigrations, MigrateProcess, MigratedProcess, MigrationEnd,
    MigrationOutcome,
};
use monitor_format::human;
use monitor_model::id::Ns;

/// Bytes of a kibibyte, as sizes are scaled.
const KIBI: f64 = 1024.0;

/// Migrates a process, or lists migrations.
pub fn migrate(args: &MigrateArgs) -> Result<Exit, Failure> {
    let daemon = args.daemon.socket.as_deref();
    let (Some(pid), Some(to)) = (args.pid, &args.to) else {
        let listed = with_daemon(daemon, async |client| client.migrations().await)?;
        return report(&listed, args.printed.is_json(), table);
    };
    let within_ns = Some(Ns::from(args.within).0);
    let params = MigrateProcess { pid, to: to.clone(), within_ns };
    let migrated = with_daemon(daemon, async |client| client.migrate_process(&params).await)?;
    let exit = exit_of(&migrated);
    if args.printed.is_json() {
        return print(json(&migrated)?.as_bytes()).map(|_| exit);
    }
    let text = text((pid, to), &migrated);
    match exit {
        Exit::Ok => print(format!("{text}\n").as_bytes()),
        exit => {
            notice(&text);
            Ok(exit)
        }
    }
}

const fn exit_of(migrated: &MigratedProcess) -> Exit {
    match migrated.outcome {
        MigrationOutcome::Migrated => Exit::Ok,
        MigrationOutcome::Stayed => Exit::Failed,
        MigrationOutcome::Unknown => Exit::Partial,
    }
}

/// What has become of a process.
fn text((pid, to): (u32, &str), migrated: &MigratedProcess) -> String {
    let why = migrated.why.as_deref().unwrap_or("no reason is known");
    let frozen = migrated.frozen_ns.filter(|ns| *ns > 0);
    let frozen = frozen.map(|ns| human::duration_text(ns as f64));
    let frozen = frozen.map(|it| format!(", frozen for {it}")).unwrap_or_default();
    let bytes = migrated.bytes.map(|bytes| human::scaled_text(bytes as f64, KIBI));
    let bytes = bytes.map(|it| format!(", {it}B of images")).unwrap_or_default();
    match migrated.outcome {
        MigrationOutcome::Migrated => {
            format!("process {pid} runs on {to}{frozen}{bytes}")
        }
        MigrationOutcome::Stayed => {
            format!("process {pid} runs here as before{frozen}: {why}")
        }
        MigrationOutcome::Unknown => format!(
            "process {pid} runs neither here nor on {to}, until {to} says what it decided ({why}): \
             see monitor migrate --list"
        ),
    }
}

fn table(listed: &ListedMigrations) -> String {
    if listed.migrations.is_empty() {
        return "no migration is without an outcome\n".to_owned();
    }
    listed.migrations.iter().map(row).collect()
}

fn row(it: &ListedMigration) -> String {
    let direction = match it.end {
        MigrationEnd::Source => "to",
        MigrationEnd::Target => "from",
    };
    let mut began = String::new();
    human::timestamp(Ns(it.begun_unix_ns), &mut began);
    let why = it.why.as_deref().map(|why| format!(": {why}"));
    format!(
        "{} ({}) {direction} {} since {began}: {}{}{}\n",
        it.pid,
        it.name,
        it.peer,
        it.state,
        if it.frozen { ", frozen" } else { "" },
        why.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(outcome: MigrationOutcome) -> MigratedProcess {
        let why = Some("n2: no".to_owned()).filter(|_| outcome != MigrationOutcome::Migrated);
        let frozen_ns = Some(250_000_000).filter(|_| outcome != MigrationOutcome::Unknown);
        MigratedProcess { id: "n1-7-3".to_owned(), outcome, why, frozen_ns, bytes: Some(3 << 20) }
    }

    #[test]
    fn each_outcome_says_where_the_process_runs() {
        let text = |outcome| text((7, "n2"), &migrated(outcome));
        let gone = "process 7 runs on n2, frozen for 250ms, 3.0MB of images";
        assert_eq!(text(MigrationOutcome::Migrated), gone);
        let here = "process 7 runs here as before, frozen for 250ms: n2: no";
        assert_eq!(text(MigrationOutcome::Stayed), here);
        assert!(text(MigrationOutcome::Unknown).starts_with("process 7 runs neither here nor on"));
        assert_eq!(exit_of(&migrated(MigrationOutcome::Unknown)), Exit::Partial);
    }

    #[test]
    fn a_listed_migration_has_its_state_and_its_reason() {
        let listed = ListedMigrations {
            migrations: vec![ListedMigration {
                id: "n1-7-3".to_owned(),
                pid: 7,
                name: "a".to_owned(),
                end: MigrationEnd::Source,
                peer: "n2".to_owned(),
                state: "deciding".to_owned(),
                frozen: true,
                begun_unix_ns: 0,
                why: Some("missing".to_owned()),
            }],
        };
        let text = table(&listed);
        assert!(text.starts_with("7 (a) to n2 since 1970-"), "{text}");
        assert!(text.ends_with(": deciding, frozen: missing\n"), "{text}");
        assert_eq!(table(&ListedMigrations::default()), "no migration is without an outcome\n");
    }
}
