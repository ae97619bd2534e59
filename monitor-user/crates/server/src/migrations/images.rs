//! The images of a process as one file.
//!
//! In: the folder that CRIU has written, or the file. Out: the other one. The file is a tar archive
//! of plain files; anything else in one that another node has sent is refused.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};
use tar::{Archive, Builder, EntryType};

/// What the names of images end with.
const ENDING: &str = "img";

/// The name of the file of a migration.
pub fn archive_name(id: &str) -> String {
    format!("{id}.tar")
}

/// Packs the images of a folder. Blocks.
///
/// # Errors
/// A file cannot be read or written.
pub fn pack(folder: &Path, archive: &Path) -> io::Result<u64> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(archive)?;
    let mut builder = Builder::new(BufWriter::new(file));
    // Each image is one plain file.
    builder.sparse(false);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_image(&entry.path()) {
            builder.append_path_with_name(entry.path(), entry.file_name())?;
        }
    }
    let mut file = builder.into_inner()?;
    file.flush()?;
    Ok(file.get_ref().metadata()?.len())
}

/// Unpacks images into a folder. Blocks.
///
/// # Errors
/// It is no archive of images, or a file cannot be written.
pub fn unpack(archive: &Path, folder: &Path) -> io::Result<()> {
    let mut archive = Archive::new(BufReader::new(File::open(archive)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let is_name = matches!(
            path.components().collect::<Vec<_>>().as_slice(),
            [Component::Normal(name)] if *name == path.as_os_str()
        );
        if entry.header().entry_type() != EntryType::Regular || !is_name || !is_image(&path) {
            let why = format!("{} is no image of CRIU", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
        let mut file = options.open(folder.join(path))?;
        io::copy(&mut entry, &mut file)?;
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(ENDING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::Header;

    #[test]
    fn images_come_out_as_they_went_in_and_nothing_else_does() {
        let base = Path::new("/dev/shm").join(format!("monitor-images-{}", std::process::id()));
        let (from, to, file) = (base.join("from"), base.join("to"), base.join("a.tar"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("pages-1.img"), vec![7; 100_000]).unwrap();
        fs::write(from.join("criu.log"), "x").unwrap();
        assert!(pack(&from, &file).unwrap() > 100_000);
        unpack(&file, &to).unwrap();
        assert_eq!(fs::read(to.join("pages-1.img")).unwrap(), vec![7; 100_000]);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
        // Nothing is replaced.
        assert!(unpack(&file, &to).is_err());
        for (name, kind) in [
            ("../out.img", EntryType::Regular),
            ("a/b.img", EntryType::Regular),
            ("link.img", EntryType::Symlink),
            ("run.sh", EntryType::Regular),
        ] {
            let mut header = Header::new_gnu();
            let bytes = name.as_bytes();
            header.as_old_mut().name[..bytes.len()].copy_from_slice(bytes);
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_cksum();
            let mut builder = Builder::new(File::create(&file).unwrap());
            builder.append(&header, io::empty()).unwrap();
            builder.finish().unwrap();
            assert!(unpack(&file, &to).is_err(), "{name}");
        }
        assert!(!base.join("out.img").exists());
        fs::remove_dir_all(base).unwrap();
    }
}
