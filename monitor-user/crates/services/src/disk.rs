//! The extension `pio_`: I/O of processes, the layout of a file on its disk, free disk space.
//!
//! In: processes, their descriptors, mounted file systems. Out: the kernel's numbers. Single I/O
//! calls are `start_lib_call` and `end_lib_call`; `monitor sample disk` measures disks, and the
//! option `--disk` counts the requests of processes.

use super::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{CallResult, Refusal, Right};
use monitor_model::field::ProcessField as F;
use monitor_omis::{Status, Text, Value, param_type::ParamType};

const BLANK: ServiceSpec = ServiceSpec { prefix: "pio_", ..ServiceSpec::BASE };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "pio_counts",
        params: &[param("tid_list", ParamType::Many(&ParamType::Process))],
        results: &[ResultSpec::new(
            "processes",
            "{integer tid; integer read_calls; integer write_calls; integer \
                   read_call_bytes; integer write_call_bytes; integer read_bytes; integer \
                   write_bytes}*",
        )],
        right: Right::Observe,
        level: ExecutionLevel::Snapshot,
        help: "Returns for each process the number of read and write calls, the bytes of these \
               calls, and the bytes that were read from and written to disks for it. -1 stands \
               for an unknown number.",
        examples: &["process 7 read_calls=3 read_call_bytes=300 written_bytes=8192\nattach 7\n\
                     > 10 [0] pio_counts([7])\n\
                     < 10 [0] pio_counts(0,[7,3,-1,300,-1,-1,8192])"],
        handler: Handler::Synchronous(counts),
        ..BLANK
    },
    ServiceSpec {
        name: "pio_layout",
        params: &[param("tid", ParamType::Process), param("descriptor", ParamType::Integer)],
        results: &[
            ResultSpec::new("path", "string"),
            ResultSpec::new("device", "string"),
            ResultSpec::new("size", "integer"),
            ResultSpec::new(
                "extents",
                "{integer offset; integer place; integer length; integer flags}*",
            ),
        ],
        right: Right::Control,
        help: "Returns the layout of the file behind a descriptor of a process: its path, the \
               device numbers, its size, and for each extent its offset in the file, its place \
               on the device, its length (all in bytes) and the bits of FIEMAP_EXTENT_* of \
               linux/fiemap.h. Holes are left out.",
        examples: &["process 7\nattach 7\n> 10 [0] pio_layout(7,3)\n\
                     < 10 [0] pio_layout(0,\"/data\",\"8:1\",8192,[0,1048576,8192,1])"],
        handler: Handler::Synchronous(layout),
        ..BLANK
    },
    ServiceSpec {
        name: "pio_space",
        results: &[ResultSpec::new(
            "disks",
            "{string path; string source; integer size; integer free; integer avail; \
                   integer files; integer files_free}*",
        )],
        help: "Returns for each file system that is mounted from a device of this node its mount \
               point, its source, its size, the free bytes, the bytes available to users, the \
               maximum number of files, and the number of free ones. A file system with several \
               mount points is listed once.",
        examples: &["> 10 [0] pio_space()\n\
                     < 10 [0] pio_space(0,[\"/\",\"/dev/sda1\",1000,400,300,64,32])"],
        handler: Handler::Synchronous(space),
        ..BLANK
    },
];

fn counts(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    const ALL: [F; 6] =
        [F::ReadCalls, F::WriteCalls, F::ReadChars, F::WrittenChars, F::ReadBytes, F::WrittenBytes];
    let chosen = ctx.processes(&args[0])?;
    let mut out = Vec::new();
    for it in &chosen.served {
        out.push(ctx.number(it.id));
        out.extend(ALL.map(|field| it.row.get(field).map_or(Value::from(-1), Value::from)));
    }
    Ok(ctx.list_values([Value::List(out)], (&chosen.failed, chosen.served.len())).into())
}

fn layout(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let wrong = || Refusal::new(Status::RANGE, "descriptor: expected a file descriptor number");
    let descriptor = args[1].integer().ok_or_else(wrong)?;
    let id = ctx.process(&args[0])?.id;
    let it = ctx.platform.file_layout(id, descriptor)?;
    let extents = it
        .extents
        .iter()
        .flat_map(|it| [it.logical, it.physical, it.length, it.flags.into()].map(Value::from));
    let extents = Value::List(extents.collect());
    let path = Value::Text(Text::from(it.path));
    let status = if it.is_truncated { Status::PARTIAL } else { Status::OK };
    let results = vec![path, Value::from(it.device.as_str()), it.size.into(), extents];
    Ok(CallResult { status, results, reason: None }.into())
}

fn space(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let mut all = Vec::new();
    for it in ctx.platform.file_systems()? {
        all.extend([Value::from(it.path.as_str()), Value::from(it.source.as_str())]);
        all.extend([it.size, it.free, it.avail, it.files, it.files_free].map(Value::from));
    }
    Ok(CallResult::with(vec![Value::List(all)]).into())
}
