//! Access to elements of the rule object's arrays, by map name.

use crate::object::{Object, Plain, Record};
use aya::maps::{Array, Map, MapError, PerCpuArray, PerCpuValues};
use monitor_backend::Error;
use monitor_sys::mmapped_array::MmappedArray;
use std::os::fd::AsFd as _;

/// An element of an array.
pub fn get<T: Plain>(object: &Object, name: &str, index: u32) -> Option<T> {
    let array = Array::<_, Record<T>>::try_from(object.ebpf.map(name)?).ok()?;
    array.get(&index, 0).ok().map(|Record(value)| value)
}

/// Writes an element of an array.
pub fn set<T: Plain>(object: &mut Object, name: &str, index: u32, value: &T) -> Result<(), Error> {
    let error = object.no_map(name);
    let map = object.ebpf.map_mut(name).and_then(|map| Array::<_, Record<T>>::try_from(map).ok());
    map.ok_or(error)?.set(index, Record(*value), 0).map_err(|error| refused(name, &error))
}

/// An element of a per-CPU array, for each CPU.
pub fn get_all<T: Plain>(object: &Object, name: &str, index: u32) -> Vec<T> {
    let map = |name| PerCpuArray::<_, Record<T>>::try_from(object.ebpf.map(name)?).ok();
    let values = map(name).and_then(|array| array.get(&index, 0).ok());
    values.map(|it| it.iter().map(|Record(value)| *value).collect()).unwrap_or_default()
}

/// Writes the same value to an element of a per-CPU array on each CPU.
pub fn set_all<T: Plain>(
    object: &mut Object,
    name: &str,
    index: u32,
    value: T,
) -> Result<(), Error> {
    let error = object.no_map(name);
    let map = object.ebpf.map_mut(name);
    let map = map.and_then(|map| PerCpuArray::<_, Record<T>>::try_from(map).ok());
    let cpus = aya::util::nr_cpus().unwrap_or(1);
    let values = PerCpuValues::try_from(vec![Record(value); cpus]);
    let values =
        values.map_err(|source| Error::kernel("read", "the number of processors", source))?;
    map.ok_or(error)?.set(index, values, 0).map_err(|error| refused(name, &error))
}

/// The first words of a mappable array.
pub fn mmapped(object: &Object, name: &str, n: usize) -> Result<MmappedArray, Error> {
    let Some(Map::Array(data)) = object.ebpf.map(name) else { return Err(object.no_map(name)) };
    MmappedArray::map(data.fd().as_fd(), n)
        .map_err(|source| Error::kernel("mmap", format!("the map {name} of rules"), source))
}

fn refused(name: &str, error: &MapError) -> Error {
    let source = match error {
        MapError::SyscallError(call) => {
            std::io::Error::from_raw_os_error(call.io_error.raw_os_error().unwrap_or(0))
        }
        other => std::io::Error::other(other.to_string()),
    };
    Error::kernel("bpf", format!("the map {name} of rules"), source)
}
