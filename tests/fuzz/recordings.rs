//! Recordings: frames and what is in them are changed, and the checksums are right again, because
//! otherwise nearly all inputs would be damaged frames.

use super::input::{Random, input, mutate};
use super::tests;
use super::trial::{Border, run};
use monitor_backend::Backend as _;
use monitor_backends::canned::Canned;
use monitor_model::{Ns, ReadSpec};
use monitor_recording::{Existing, Header, Recording, Writer};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Memory that a reader may take, as in `recording/src/hostile_tests.rs`.
const MAX_MEMORY: u64 = 256 << 20;
/// Magic number and version; head of a frame. docs/RECORDING.md.
const PREAMBLE: usize = 16;
const HEAD: usize = 64;
/// Most bytes of a block before compression that are changed here.
const MAX_RAW: usize = 1 << 20;
const WORLD: &str = "host n1\nprocess 7 comm=a cmdline=\"a b\"\nprocess 8 comm=b\n";

/// A frame: its head, and its payload without compression.
#[derive(Clone)]
struct Frame {
    head: [u8; HEAD],
    payload: Vec<u8>,
}

impl Frame {
    fn is_block(&self) -> bool {
        self.head[4] == b'B'
    }

    /// Appends it with its length and its checksums.
    fn write(&self, out: &mut Vec<u8>) {
        let compressed = self.is_block().then(|| zstd::bulk::compress(&self.payload, 1).unwrap());
        let payload = compressed.as_ref().unwrap_or(&self.payload);
        let mut head = self.head;
        head[8..12].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        head[12..16].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        let checksum = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(payload);
    }
}

/// The frames of a recording.
fn frames(file: &[u8]) -> Vec<Frame> {
    let (mut frames, mut rest) = (Vec::new(), &file[PREAMBLE..]);
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let (payload, behind) = behind.split_at(usize::try_from(length).unwrap());
        let mut frame = Frame { head: *head, payload: payload.to_vec() };
        if frame.is_block() {
            frame.payload = zstd::bulk::decompress(payload, MAX_RAW).unwrap();
        }
        // Two of the three equal headers only take time.
        if head[4] != b'H' || frames.is_empty() {
            frames.push(frame);
        }
        rest = behind;
    }
    frames
}

/// A recording that was killed after some samples, so that it has no block.
fn unfinished() -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("monitor-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("unfinished.mon");
    let mut writer = Writer::create(&path, Existing::Keep, &Header::default()).unwrap();
    let mut world = Canned::scripted(WORLD).unwrap();
    for _ in 0..4 {
        writer.append(&world.read(&ReadSpec::everything()).unwrap()).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    drop(writer);
    std::fs::remove_dir_all(folder).unwrap();
    bytes
}

fn recording(random: &mut Random, samples: &[Vec<Frame>], file: &[Vec<u8>]) -> Vec<u8> {
    if random.below(8) == 0 {
        return input(random, file, &[]);
    }
    let mut frames = random.pick(samples).clone();
    for _ in 0..1 + random.below(3) {
        let at = random.below(frames.len());
        match random.below(8) {
            0 => drop(frames.remove(at)),
            1 => frames.insert(at, frames[random.below(frames.len())].clone()),
            2 => {
                let mut range = frames[at].head[16..60].to_vec();
                mutate(random, &mut range, &[vec![0xff; 44]], &[]);
                frames[at].head[16..60].iter_mut().zip(range).for_each(|(to, from)| *to = from);
            }
            3 => frames[at].head[4] = *random.pick(b"HWCBI"),
            _ => {
                let other = [frames[random.below(frames.len())].payload.clone()];
                mutate(random, &mut frames[at].payload, &other, &[]);
            }
        }
        if frames.is_empty() {
            break;
        }
    }
    let mut bytes = file[0][..PREAMBLE].to_vec();
    frames.iter().for_each(|it| it.write(&mut bytes));
    bytes
}

/// Reads a file to its end, and once more from the middle; returns the number of samples.
fn read(file: File) -> usize {
    let Ok(mut recording) = Recording::from_file(file, Path::new("input")) else { return 0 };
    let mut n_samples = 0;
    let mut previous = None;
    while let Ok(Some(sample)) = recording.next() {
        n_samples += 1;
        previous = Some(sample);
    }
    drop(previous);
    let _notes = recording.end_notes();
    if let Some(span) = recording.span() {
        let middle = span.first.unix.0 / 2 + span.last.unix.0 / 2;
        if recording.seek(Ns(middle)).is_ok() {
            let _either = recording.next();
        }
    }
    n_samples
}

#[test]
fn any_recording_is_read_within_its_limits() {
    let files = vec![std::fs::read(tests("golden/recording/tiny.mon")).unwrap(), unfinished()];
    let samples: Vec<Vec<Frame>> = files.iter().map(|it| frames(it)).collect();
    let border = Border { name: "recordings", max_memory: MAX_MEMORY };
    let mut n_samples = 0;
    run(
        border,
        |random| recording(random, &samples, &files),
        |bytes| {
            let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC).unwrap());
            file.write_all(bytes).unwrap();
            n_samples += read(file);
        },
    );
    assert!(n_samples > 0, "no input was read at all");
}
