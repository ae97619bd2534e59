//! Code of a process that differs from its file: a breakpoint or a probe would migrate with it.
//!
//! In: a process. Out: the first such byte, as text. Without the tool or the kernel that has put
//! it there, it would end the process. A page that was never written is the page of the file, and
//! is not compared.

use crate::process_ref::{ProcessRef, proc_result};
use crate::{ControlError, memory, uprobe_patches};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryPageFlags, PageInfo};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The first byte of its code that is not that of its file.
pub fn first_changed(process: &ProcessRef) -> Result<Option<String>, ControlError> {
    for map in process.maps()? {
        let MMapPath::Path(path) = map.pathname.clone() else { continue };
        if !map.perms.contains(MMPermissions::EXECUTE) {
            continue;
        }
        for address in written_pages(process, &map)? {
            if let Some(at) = first_difference(process, &map, (address, &path))? {
                let path = path.display();
                return Ok(Some(format!(
                    "process {} has changed code at {at:#x} ({path}): a breakpoint or a probe, \
                     which would end it on another node; remove it first",
                    process.pid()
                )));
            }
        }
    }
    Ok(None)
}

/// The addresses of the pages of a mapping that are no longer those of the file.
fn written_pages(process: &ProcessRef, map: &MemoryMap) -> Result<Vec<u64>, ControlError> {
    let size = procfs::page_size();
    let mut pagemap = proc_result("reading its pages", process.procfs()?.pagemap())?;
    let (first, last) = (map.address.0 / size, map.address.1 / size);
    let range = usize::try_from(first).unwrap_or(0)..usize::try_from(last).unwrap_or(0);
    let pages = proc_result("reading its pages", pagemap.get_range_info(range))?;
    let is_written = |page: &PageInfo| match page {
        PageInfo::MemoryPage(flags) => {
            flags.contains(MemoryPageFlags::PRESENT) && !flags.contains(MemoryPageFlags::FILE)
        }
        PageInfo::SwapPage(_) => true,
    };
    let written = (first..).zip(&pages).filter(|(_, page)| is_written(page));
    Ok(written.map(|(page, _)| page * size).collect())
}

/// The first byte of a page that is another one than in the file.
fn first_difference(
    process: &ProcessRef,
    map: &MemoryMap,
    (address, path): (u64, &Path),
) -> Result<Option<u64>, ControlError> {
    let file = uprobe_patches::mapped_file(process, map, path)?;
    let own = memory::read(process, address, procfs::page_size())?;
    let mut original = vec![0; own.len()];
    let offset = map.offset + (address - map.address.0);
    let read = file.read_at(&mut original, offset);
    // After the end of the file, the page is zero.
    let _bytes = read.map_err(|error| ControlError::from_io("reading the mapped file", &error))?;
    let differs = own.iter().zip(&original).position(|(own, original)| own != original);
    Ok(differs.and_then(|at| u64::try_from(at).ok()).map(|at| address + at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::Pid;
    use std::process::{Child, Command, Stdio};

    /// Ends with the test.
    struct Ends(Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ended = self.0.kill();
            let _status = self.0.wait();
        }
    }

    #[test]
    fn a_breakpoint_is_found_and_a_page_that_was_written_back_is_none() {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let child = Ends(child);
        monitor_sys::spawn::wait_for_exec(child.0.id());
        let process = ProcessRef::open_current(Pid(child.0.id())).unwrap();
        assert_eq!(first_changed(&process), Ok(None));
        let is_code = |map: &MemoryMap| {
            let is_file = matches!(map.pathname, MMapPath::Path(_));
            is_file && map.perms.contains(MMPermissions::EXECUTE)
        };
        let code = process.maps().unwrap().into_iter().find(is_code).unwrap();
        // Its end: nothing is executed there.
        let at = code.address.1 - 1;
        let before = memory::read(&process, at, 1).unwrap();
        memory::write(&process, at, &[before[0] ^ 0xcc]).unwrap();
        let found = first_changed(&process).unwrap().unwrap();
        assert!(found.contains(&format!("changed code at {at:#x}")), "{found}");
        memory::write(&process, at, &before).unwrap();
        assert_eq!(first_changed(&process), Ok(None));
    }
}
