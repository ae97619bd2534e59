//! Peaks of the memory of zombies, which have none any more.
//!
//! In: the processes of a reading, and the table of exit records. Out: the peak of their programs,
//! which their final records will have too. The kernel's own starts with the peak of the process
//! that they were forked from.

use crate::{object::Object, owner};
use monitor_ebpf::abi::lifecycle::{EXIT_RECORDS, ExitRecord};
use monitor_model::{Identity, Process, field::ProcessField as F};

/// The peaks of the zombies of the last reading, in the order of identities: each exit record is
/// read once, however long its process stays.
#[derive(Default)]
pub struct ZombiePeaks(Vec<(Identity, Option<u64>)>);

impl ZombiePeaks {
    /// Sets the peaks of all zombies; `processes` are in the order of identities.
    pub fn set(&mut self, object: &Object, processes: &mut [Process]) {
        let known = std::mem::take(&mut self.0);
        for process in processes.iter_mut().filter(|it| it.is_zombie()) {
            let peak = match known.binary_search_by_key(&process.id, |it| it.0) {
                Ok(at) => known[at].1,
                Err(_) => read(object, process),
            };
            process.row.set_some(F::PeakRss, peak);
            self.0.push((process.id, peak));
        }
    }
}

/// The peak of a zombie in bytes; none if it exited before the hooks were attached.
pub fn read(object: &Object, process: &Process) -> Option<u64> {
    let record: ExitRecord = object.row(EXIT_RECORDS, owner::from_process(process))?;
    Some(record.max_rss_pages * rustix::param::page_size() as u64)
}
