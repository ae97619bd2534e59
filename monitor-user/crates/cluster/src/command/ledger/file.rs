//! A ledger in a file of fixed size.
//!
//! ```text
//!  0     header          64 bytes: magic, ledger, stay, boot id, check
//!  64    header          the same: they are written in turn, so that one is whole
//!  128   1024 positions  24 bytes each: position, key, check; the newest overwrites the oldest
//! ```
//!
//! A lock on the file keeps a second daemon from using it. A daemon that is killed while it
//! writes leaves a record whose check is wrong: that position was not executed.

use super::{EntryKey, Ledger, fnv1a};
use crate::bus::entry::{Incarnation, LedgerId, Seq};
use monitor_sys::random;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const MAGIC: u64 = u64::from_le_bytes(*b"monledg1");
const HEADER: usize = 64;
/// Number of positions that are kept.
const KEPT: usize = 1024;
const RECORD: usize = 24;
const POSITIONS: usize = 2 * HEADER;

/// The random id of a boot of the node, random(4), or another text that changes with it.
pub type BootId = [u8; 16];

/// A ledger in a file.
#[derive(Debug)]
pub struct FileLedger {
    file: File,
    id: LedgerId,
    incarnation: Incarnation,
    boot: BootId,
    /// Header that is written next, 0 or 1.
    next_header: u64,
    /// Record that is written next.
    next_record: usize,
    last: Option<Seq>,
    positions: KeptPositions,
}

/// The kept positions, at the index of their record.
#[derive(Debug)]
struct KeptPositions {
    records: Vec<Option<(Seq, EntryKey)>>,
    /// How many of them each key has: every entry is looked for.
    counts: HashMap<EntryKey, usize>,
}

impl KeptPositions {
    fn new() -> Self {
        Self { records: vec![None; KEPT], counts: HashMap::with_capacity(KEPT) }
    }

    fn put(&mut self, index: usize, seq: Seq, key: EntryKey) {
        *self.counts.entry(key).or_default() += 1;
        if let Some((_, old)) = self.records[index].replace((seq, key))
            && let Entry::Occupied(mut count) = self.counts.entry(old)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

struct Header {
    id: LedgerId,
    incarnation: Incarnation,
    boot: BootId,
}

impl FileLedger {
    /// Opens the ledger, or makes a new one with a random number.
    ///
    /// # Errors
    /// It cannot be read or written, or another daemon has it open (`WouldBlock`).
    pub fn open(path: &Path, boot: BootId) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        file.try_lock()?;
        let headers = [0, 1].map(|index| Header::read(&file, index));
        let stay = |it: &Option<Header>| it.as_ref().map(|it| it.incarnation);
        let next_header = u64::from(stay(&headers[0]) > stay(&headers[1]));
        let newest = headers.into_iter().flatten().max_by_key(|it| it.incarnation);
        let is_same_boot = newest.as_ref().is_some_and(|it| it.boot == boot);
        let (id, incarnation) = match newest {
            Some(header) => (header.id, header.incarnation),
            None => (LedgerId(random()?), Incarnation(0)),
        };
        let mut ledger = Self {
            file,
            id,
            incarnation,
            boot,
            next_header,
            next_record: 0,
            last: None,
            positions: KeptPositions::new(),
        };
        if is_same_boot {
            ledger.read_positions();
        } else {
            ledger.clear()?;
        }
        Ok(ledger)
    }

    fn read_positions(&mut self) {
        for index in 0..KEPT {
            let mut record = [0; RECORD];
            // A short file has no record there.
            let is_read = self.file.read_exact_at(&mut record, offset(index)).is_ok();
            let [seq, key, check] = words(&record);
            if is_read && check == checked(&record[..16]) {
                self.positions.put(index, Seq(seq), EntryKey(key));
                if seq > 0 && self.last < Some(Seq(seq)) {
                    (self.last, self.next_record) = (Some(Seq(seq)), (index + 1) % KEPT);
                }
            }
        }
    }

    fn write_record(&self, index: usize, seq: Seq, key: EntryKey) -> io::Result<()> {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&seq.0.to_le_bytes());
        record[8..16].copy_from_slice(&key.0.to_le_bytes());
        let check = checked(&record[..16]);
        record[16..].copy_from_slice(&check.to_le_bytes());
        self.file.write_all_at(&record, offset(index))
    }

    /// Removes the records of another boot.
    fn clear(&self) -> io::Result<()> {
        self.file.write_all_at(&[0; KEPT * RECORD], POSITIONS as u64)
    }
}

impl Header {
    fn read(file: &File, index: u64) -> Option<Self> {
        let mut bytes = [0; HEADER];
        file.read_exact_at(&mut bytes, index * HEADER as u64).ok()?;
        let [magic, id, incarnation, check] =
            [0, 8, 16, 56].map(|at| words::<1>(&bytes[at..at + 8])[0]);
        let boot = bytes[24..40].try_into().ok()?;
        let is_whole = magic == MAGIC && check == checked(&bytes[..56]);
        is_whole.then_some(Self { id: LedgerId(id), incarnation: Incarnation(incarnation), boot })
    }

    fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (at, word) in [(0, MAGIC), (8, self.id.0), (16, self.incarnation.0)] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..40].copy_from_slice(&self.boot);
        let check = checked(&bytes[..56]);
        bytes[56..].copy_from_slice(&check.to_le_bytes());
        bytes
    }
}

impl Ledger for FileLedger {
    fn id(&self) -> LedgerId {
        self.id
    }

    fn begin_stay(&mut self) -> io::Result<Incarnation> {
        let incarnation = Incarnation(self.incarnation.0 + 1);
        let header = Header { id: self.id, incarnation, boot: self.boot };
        self.file.write_all_at(&header.to_bytes(), self.next_header * HEADER as u64)?;
        // The stay must survive the boot, unlike positions.
        self.file.sync_data()?;
        self.next_header = 1 - self.next_header;
        self.incarnation = incarnation;
        Ok(incarnation)
    }

    fn last(&self) -> Option<Seq> {
        self.last
    }

    fn contains(&self, key: EntryKey) -> bool {
        self.positions.counts.contains_key(&key)
    }

    fn write_position(&mut self, seq: Seq, key: EntryKey) -> io::Result<()> {
        self.write_record(self.next_record, seq, key)?;
        self.positions.put(self.next_record, seq, key);
        self.next_record = (self.next_record + 1) % KEPT;
        self.last = self.last.max((seq > Seq(0)).then_some(seq));
        Ok(())
    }

    fn forget_positions(&mut self) -> io::Result<()> {
        for index in 0..KEPT {
            if let Some((_, key)) = self.positions.records[index] {
                self.write_record(index, Seq(0), key)?;
                self.positions.records[index] = Some((Seq(0), key));
            }
        }
        self.last = None;
        Ok(())
    }
}

fn offset(index: usize) -> u64 {
    (POSITIONS + index * RECORD) as u64
}

fn checked(bytes: &[u8]) -> u64 {
    fnv1a(bytes.iter().copied())
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}

/// A random number that is not 0.
fn random() -> io::Result<u64> {
    match u64::from_le_bytes(random::bytes()?) {
        0 => Err(io::Error::new(ErrorKind::InvalidData, "/dev/urandom gives zeros")),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    const BOOT: BootId = [7; 16];

    /// A path that no other test uses; the file is removed at the end.
    struct TempPath(PathBuf);

    impl TempPath {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("monitor-ledger-{}-{number}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for TempPath {
        fn drop(&mut self) {
            // A test that failed early has made no file.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_ledger_is_kept_and_belongs_to_one_daemon() {
        let path = TempPath::new();
        let mut first = FileLedger::open(&path.0, BOOT).unwrap();
        assert_eq!(FileLedger::open(&path.0, BOOT).unwrap_err().kind(), ErrorKind::WouldBlock);
        let id = first.id();
        assert_eq!([1, 2].map(|_| first.begin_stay().unwrap()), [1, 2].map(Incarnation));
        assert_eq!(first.last(), None);
        for seq in 10..10 + 2 * KEPT as u64 {
            first.write_position(Seq(seq), EntryKey(seq * 3)).unwrap();
        }
        drop(first);
        let mut again = FileLedger::open(&path.0, BOOT).unwrap();
        let last = 9 + 2 * KEPT as u64;
        assert_eq!((again.id(), again.last()), (id, Some(Seq(last))));
        assert!(again.contains(EntryKey(last * 3)) && !again.contains(EntryKey(30)));
        assert_eq!(again.begin_stay().unwrap(), Incarnation(3));
    }

    #[test]
    fn positions_of_another_boot_are_not_known_but_the_stay_is() {
        let path = TempPath::new();
        let mut first = FileLedger::open(&path.0, BOOT).unwrap();
        first.begin_stay().unwrap();
        first.write_position(Seq(5), EntryKey(1)).unwrap();
        let id = first.id();
        drop(first);
        let mut again = FileLedger::open(&path.0, [8; 16]).unwrap();
        assert_eq!((again.id(), again.last()), (id, None));
        assert!(!again.contains(EntryKey(1)));
        assert_eq!(again.begin_stay().unwrap(), Incarnation(2));
    }

    #[test]
    fn forgotten_positions_keep_their_entries() {
        let path = TempPath::new();
        let mut ledger = FileLedger::open(&path.0, BOOT).unwrap();
        ledger.begin_stay().unwrap();
        ledger.write_position(Seq(500), EntryKey(1)).unwrap();
        ledger.forget_positions().unwrap();
        ledger.write_position(Seq(2), EntryKey(3)).unwrap();
        drop(ledger);
        let ledger = FileLedger::open(&path.0, BOOT).unwrap();
        assert_eq!(ledger.last(), Some(Seq(2)));
        assert!(ledger.contains(EntryKey(1)) && ledger.contains(EntryKey(3)));
    }

    #[test]
    fn an_entry_without_a_position_is_known() {
        let path = TempPath::new();
        let mut ledger = FileLedger::open(&path.0, BOOT).unwrap();
        ledger.begin_stay().unwrap();
        ledger.write_position(Seq(0), EntryKey(1)).unwrap();
        assert_eq!((ledger.last(), ledger.contains(EntryKey(1))), (None, true));
        drop(ledger);
        let ledger = FileLedger::open(&path.0, BOOT).unwrap();
        assert_eq!((ledger.last(), ledger.contains(EntryKey(1))), (None, true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Also those that were written twice, of which one was overwritten, and after a restart.
        #[test]
        fn the_newest_entries_are_known(
            keys in prop::collection::vec(1..2000_u64, 0..4 * KEPT),
            restart in 0..4 * KEPT,
        ) {
            let path = TempPath::new();
            let mut ledger = FileLedger::open(&path.0, BOOT).unwrap();
            ledger.begin_stay().unwrap();
            for (at, key) in keys.iter().enumerate() {
                if at == restart {
                    drop(ledger);
                    ledger = FileLedger::open(&path.0, BOOT).unwrap();
                }
                ledger.write_position(Seq(at as u64 + 1), EntryKey(*key)).unwrap();
            }
            let kept = &keys[keys.len().saturating_sub(KEPT)..];
            let wrong = (1..2000).find(|key| ledger.contains(EntryKey(*key)) != kept.contains(key));
            prop_assert_eq!(wrong, None);
        }

        /// A daemon that was killed while it wrote: all but the last record are known, and no
        /// other one is.
        #[test]
        fn a_torn_record_is_not_known(n in 1..40_u64, n_bytes in 0..RECORD) {
            let path = TempPath::new();
            let mut ledger = FileLedger::open(&path.0, BOOT).unwrap();
            ledger.begin_stay().unwrap();
            (1..=n).for_each(|seq| ledger.write_position(Seq(seq), EntryKey(seq)).unwrap());
            let at = offset(ledger.next_record - 1);
            let mut record = [0; RECORD];
            ledger.file.read_exact_at(&mut record, at).unwrap();
            let rest: Vec<u8> = record[n_bytes..].iter().map(|byte| !byte).collect();
            ledger.file.write_all_at(&rest, at + n_bytes as u64).unwrap();
            drop(ledger);
            let ledger = FileLedger::open(&path.0, BOOT).unwrap();
            prop_assert_eq!(ledger.last(), (n > 1).then_some(Seq(n - 1)));
        }

        #[test]
        fn other_bytes_are_no_ledger(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let path = TempPath::new();
            std::fs::write(&path.0, bytes).unwrap();
            let mut ledger = FileLedger::open(&path.0, BOOT).unwrap();
            prop_assert_eq!(ledger.last(), None);
            prop_assert_eq!(ledger.begin_stay().unwrap(), Incarnation(1));
        }
    }
}
