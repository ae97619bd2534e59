//! The unexpected messages of Open MPI 4 with its own matching (pml/ob1): arrived, and no receive
//! has been posted for them.
//!
//! In: a process. Out: the lists of all communicators, one sender after the other. Structures are
//! those of Open MPI 4.1 (ompi/communicator, ompi/mca/pml/ob1); that a process has them is seen
//! before anything is believed. What a transport keeps to itself (UCX, libfabric) is not there.

use super::queue::{
    MAX_CONTENT_BYTES, QueueDetail, QueuedMessage, Result, add, read_stable, unavailable, walk_ring,
};
use monitor_model::Pid;
use monitor_symbols::{memory::ProcessMemory, resolve::variable};
use std::path::Path;

/// The table of all communicators.
pub const COMMUNICATORS: &str = "ompi_mpi_communicators";
const LIBRARY: &str = "libmpi";
/// Most communicators and members of each that are looked through.
const MOST: u64 = 1 << 20;
/// The name of the first communicator, which shows that the structures are the known ones.
const FIRST_NAME: &[u8] = b"MPI_COMM_WORLD\0";
const FIRST_NAME_BEFORE_4_1: &[u8] = b"MPI COMM WORLD\0";

/// `opal_pointer_array_t`.
mod table {
    pub const LENGTH: u64 = 88;
    pub const PLACES: u64 = 112;
}
/// `ompi_communicator_t`.
mod communicator {
    pub const NAME: u64 = 160;
    pub const MATCHING: u64 = 328;
}
/// `mca_pml_ob1_comm_t`.
mod matching {
    pub const PEERS: u64 = 216;
    pub const N_PEERS: u64 = 224;
}
/// `mca_pml_ob1_comm_proc_t` with a list, whose head is an element.
mod peer {
    pub const UNEXPECTED: u64 = 104 + 16;
}
/// `opal_list_item_t`.
const NEXT: u64 = 16;
/// `mca_pml_ob1_recv_frag_t` with its header.
mod fragment {
    pub const KIND: u64 = 56;
    pub const SOURCE: u64 = 56 + 4;
    pub const TAG: u64 = 56 + 8;
    /// Of a message that is sent in pieces.
    pub const WHOLE: u64 = 56 + 16;
    pub const DATA: u64 = 136;
    pub const DATA_LENGTH: u64 = 136 + 8;
}
/// `MCA_PML_OB1_HDR_TYPE_MATCH`: the whole message is there.
const MATCH: u8 = 65;
/// Bytes of its header on the wire.
const MATCH_HEADER: u64 = 14;

/// The messages, ordered by communicator and sender.
pub fn messages(proc: &Path, pid: Pid, depth: QueueDetail) -> Result<Vec<QueuedMessage>> {
    let table = variable(proc, pid, LIBRARY, COMMUNICATORS)?;
    let memory = ProcessMemory::open(proc, pid)?;
    read_stable(|| {
        let length = memory.int(table + table::LENGTH)?;
        let places = memory.word(table + table::PLACES)?;
        if length <= 0 || places == 0 {
            return Err(unavailable("queues of this process", "it has not called MPI_Init yet"));
        }
        check_layout(&memory, memory.word(places)?)?;
        let (mut found, mut total) = (Vec::new(), 0);
        for place in 0..u64::try_from(length).unwrap_or(0).min(MOST) {
            let at = memory.word(places + 8 * place)?;
            if at != 0 {
                read_communicator(&memory, at, depth, (&mut found, &mut total))?;
            }
        }
        Ok(found)
    })
}

/// Whether the first communicator is where these structures have it.
fn check_layout(memory: &ProcessMemory, first: u64) -> Result<()> {
    let name = memory.bytes(first + communicator::NAME, FIRST_NAME.len() as u64);
    if name.is_ok_and(|name| name == FIRST_NAME || name == FIRST_NAME_BEFORE_4_1) {
        return Ok(());
    }
    Err(unavailable(
        "queues of this Open MPI",
        "its structures are not those of version 4.1, which are the ones known here",
    ))
}

fn read_communicator(
    memory: &ProcessMemory,
    at: u64,
    depth: QueueDetail,
    (found, total): (&mut Vec<QueuedMessage>, &mut usize),
) -> Result<()> {
    let matching = memory.word(at + communicator::MATCHING)?;
    // MPI_COMM_NULL has none, and neither has another way of matching.
    if matching == 0 {
        return Ok(());
    }
    let (peers, n_peers) =
        (memory.word(matching + matching::PEERS)?, memory.word(matching + matching::N_PEERS)?);
    if n_peers > MOST {
        return Err(unavailable(
            "queues of this process",
            "it does not use Open MPI's own matching (pml/ob1)",
        ));
    }
    for place in 0..n_peers {
        let peer = memory.word(peers + 8 * place)?;
        if peer == 0 {
            continue;
        }
        walk_ring(memory, peer + peer::UNEXPECTED, NEXT, |at| {
            let message = message(memory, at, depth)?;
            // What the library sends to itself, as in a barrier, has a tag below zero.
            if message.tag >= 0 {
                add(message, found, total)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn message(memory: &ProcessMemory, at: u64, depth: QueueDetail) -> Result<QueuedMessage> {
    let is_whole = memory.bytes(at + fragment::KIND, 1)? == [MATCH];
    let here = memory.word(at + fragment::DATA_LENGTH)?.saturating_sub(MATCH_HEADER);
    let mut found = QueuedMessage {
        sender: Some(memory.int(at + fragment::SOURCE)?.into()),
        tag: memory.int(at + fragment::TAG)?.into(),
        bytes: if is_whole { here } else { memory.word(at + fragment::WHOLE)? },
        content: Vec::new(),
        mark: None,
    };
    if depth == QueueDetail::Contents && is_whole {
        let data = memory.word(at + fragment::DATA)? + MATCH_HEADER;
        found.content = memory.bytes(data, here.min(MAX_CONTENT_BYTES))?;
    }
    Ok(found)
}
