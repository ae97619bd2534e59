//! What a node writes down of its migrations: one file for each, which a kill leaves whole.
//!
//! In: a record. Out: the record on disk, before the effects that it permits; all of them at the
//! next start.

use monitor_cluster::migration::{SourceState, TargetState};
use monitor_control::checkpoint::migration::MigrationCgroup;
use monitor_model::{Identity, Pid, Refusal, Status};
use monitor_protocol::migration::{ListedMigration, MigrationEnd};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What the names of records end with.
const ENDING: &str = "json";
/// Longest id: it is a name of files and cgroups.
const ID_BYTES: usize = 200;

/// A migration, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationRecord {
    /// Its id, the same on both nodes.
    pub id: String,
    /// The boot in which the processes are.
    pub boot_id: String,
    /// The pid of the process on both nodes.
    pub pid: u32,
    /// When the process of this node was started; 0 if there is none.
    pub start_ns: u64,
    /// Its name.
    pub name: String,
    /// The other node.
    pub peer: String,
    /// The cgroup of the process of this node.
    pub cgroup: MigrationCgroup,
    /// When it began, in nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// Why it has failed, or goes on.
    pub why: Option<String>,
    /// Which end this node is, and how far it has come.
    pub end: EndState,
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// The process leaves this node.
    Source(SourceState),
    /// It comes to this node.
    Target(TargetState),
}

impl EndState {
    /// Its name, as the record has it.
    fn name(self) -> String {
        let value = match self {
            Self::Source(state) => serde_json::to_value(state),
            Self::Target(state) => serde_json::to_value(state),
        };
        value.ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

impl MigrationRecord {
    /// The process of this node.
    pub const fn process(&self) -> Identity {
        Identity { pid: Pid(self.pid), start: monitor_model::Ns(self.start_ns) }
    }

    /// As it is listed.
    pub fn listed(&self) -> ListedMigration {
        ListedMigration {
            id: self.id.clone(),
            pid: self.pid,
            name: self.name.clone(),
            end: match self.end {
                EndState::Source(_) => MigrationEnd::Source,
                EndState::Target(_) => MigrationEnd::Target,
            },
            peer: self.peer.clone(),
            state: self.end.name(),
            frozen: self.cgroup.is_frozen(),
            begun_unix_ns: self.begun_unix_ns,
            why: self.why.clone(),
        }
    }
}

/// Whether a text is an id: a name of a file, and not hidden.
pub fn is_id(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_' | '@');
    !text.is_empty()
        && text.len() <= ID_BYTES
        && !text.starts_with('.')
        && text.chars().all(is_plain)
}

/// The folder of the records of a node.
#[derive(Clone, Debug)]
pub struct RecordStore {
    folder: PathBuf,
}

impl RecordStore {
    /// At this path; it is made when it is first needed.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of the files of a migration.
    pub fn folder_of(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Writes a record, and returns when it is on disk.
    ///
    /// # Errors
    /// It cannot be written; the one before is still there.
    pub fn write(&self, record: &MigrationRecord) -> Result<(), Refusal> {
        self.replace(record).map_err(|why| {
            let why = format!("the migration {} cannot be written down: {why}", record.id);
            Refusal::new(Status::Error, why)
        })
    }

    fn replace(&self, record: &MigrationRecord) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(&record.id);
        let partial = path.with_extension("partial");
        let mut file = File::create(&partial)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Removes a record.
    pub fn remove(&self, id: &str) {
        remove_file(&self.path(id));
    }

    /// All records. One that cannot be read is logged, and stays.
    pub fn read_all(&self) -> Vec<MigrationRecord> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|it| it.path());
        let records = paths.filter(|it| it.extension().is_some_and(|ending| ending == ENDING));
        let mut all: Vec<_> = records.filter_map(|path| read(&path)).collect();
        all.sort_by_key(|it| it.begun_unix_ns);
        all
    }

    fn path(&self, id: &str) -> PathBuf {
        // An id may have dots, so the ending is not set but added.
        self.folder.join(format!("{id}.{ENDING}"))
    }
}

/// Removes a file, if it is there; what cannot be removed is logged.
pub fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("cannot remove {}: {why}", path.display());
        }
        _ => {}
    }
}

fn read(path: &Path) -> Option<MigrationRecord> {
    let record = fs::read(path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    let logged = |why: &io::Error| tracing::error!("the record {}: {why}", path.display());
    record.inspect_err(logged).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_whole_and_read_again() {
        let folder = Path::new("/dev/shm").join(format!("monitor-records-{}", std::process::id()));
        let store = RecordStore::new(folder.clone());
        assert_eq!(store.read_all(), []);
        let cgroup = serde_json::from_str(r#"{"path":"/sys/fs/cgroup/a"}"#).unwrap();
        let mut record = MigrationRecord {
            id: "n1.a-7-3".to_owned(),
            boot_id: "b".to_owned(),
            pid: 7,
            start_ns: 9,
            name: "a".to_owned(),
            peer: "n2".to_owned(),
            cgroup,
            begun_unix_ns: 3,
            why: None,
            end: EndState::Source(SourceState::Dumping),
        };
        store.write(&record).map_err(|why| why.message).unwrap();
        record.end = EndState::Source(SourceState::Deciding);
        store.write(&record).map_err(|why| why.message).unwrap();
        assert_eq!(store.read_all(), [record.clone()]);
        assert_eq!((record.listed().state.as_str(), record.listed().frozen), ("deciding", false));
        // What a kill leaves beside it is none.
        fs::write(folder.join("n1.a-7-4.partial"), "{").unwrap();
        assert_eq!(store.read_all().len(), 1);
        store.remove(&record.id);
        assert_eq!(store.read_all(), []);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_id_is_a_name_of_a_file() {
        assert!(is_id("n1.site-a.org-77-1764470000"));
        for wrong in ["", ".", "..", "a/b", "a b", "a\n", &"a".repeat(ID_BYTES + 1)] {
            assert!(!is_id(wrong), "{wrong:?}");
        }
    }
}
