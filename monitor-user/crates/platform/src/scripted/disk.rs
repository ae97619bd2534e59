//! Files and disks of a script: one of each, on every machine the same.

use super::Scripted;
use crate::disk::{Disks, Layout, Space};
use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;
use monitor_sys::extents::Extent;

impl Disks for Scripted {
    fn layout(&mut self, _: Identity, _: u32) -> Result<Layout, Refusal> {
        let (physical, length) = (1 << 20, 8192);
        let extent = Extent::last(0, physical, length);
        let (path, device) = (b"/data".to_vec(), "8:1".to_owned());
        Ok(Layout { path, device, size: length, extents: vec![extent], is_cut: false })
    }

    fn space(&mut self) -> Result<Vec<Space>, Refusal> {
        let (path, source) = ("/".to_owned(), "/dev/sda1".to_owned());
        Ok(vec![Space {
            path,
            source,
            size: 1000,
            free: 400,
            avail: 300,
            files: 64,
            files_free: 32,
        }])
    }
}
