//! The extension `pio_`: what processes read and write, how a file lies on its disk, space.
//!
//! In: processes, their descriptors, folders. Out: numbers of the system. Calls as they happen are
//! `start_lib_call` and `end_lib_call`; what a disk is told is measured by `monitor sample --disk`.

use super::ctx::Ctx;
use super::row::{Act, Given, Level, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_model::field::ProcessField as F;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Text, Value};

const BLANK: Row = Row { prefix: "pio_", ..Row::BLANK };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "pio_counts",
        takes: &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }],
        gives: &[Given {
            name: "processes",
            kind: "{integer tid; integer read_calls; integer write_calls; integer \
                   read_call_bytes; integer write_call_bytes; integer read_bytes; integer \
                   write_bytes}*",
        }],
        right: Right::Observe,
        level: Level::Snapshot,
        help: "Tells of each process how often it called read and write and the like, for how \
               many bytes, and how many bytes came from disks and went to them for it. A number \
               that is not known is -1.",
        examples: &["process 7 read_calls=3 read_call_bytes=300 written_bytes=8192\nattach 7\n\
                     > 10 [0] pio_counts([7])\n\
                     < 10 [0] pio_counts(0,[7,3,-1,300,-1,-1,8192])"],
        act: Act::Synchronous(|ctx, args| counts(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "pio_layout",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "descriptor", kind: Kind::Integer },
        ],
        gives: &[
            Given { name: "path", kind: "string" },
            Given { name: "device", kind: "string" },
            Given { name: "size", kind: "integer" },
            Given {
                name: "extents",
                kind: "{integer offset; integer place; integer length; integer flags}*",
            },
        ],
        right: Right::Control,
        help: "Tells how the file behind a descriptor of a process lies on its disk: its path, \
               the numbers of the device, its size, and each piece with its offset in the file, \
               its place on the device, its length (all in bytes) and the bits of \
               FIEMAP_EXTENT_* of linux/fiemap.h. Holes are left out.",
        examples: &["process 7\nattach 7\n> 10 [0] pio_layout(7,3)\n\
                     < 10 [0] pio_layout(0,\"/data\",\"8:1\",8192,[0,1048576,8192,1])"],
        act: Act::Synchronous(|ctx, args| layout(ctx, args).into()),
        ..BLANK
    },
    Row {
        name: "pio_space",
        gives: &[Given {
            name: "disks",
            kind: "{string path; string source; integer size; integer free; integer avail; \
                   integer files; integer files_free}*",
        }],
        help: "Tells of each file system that is mounted from a device of this node where it is, \
               what it is, its size, what is free, what users may still have (in bytes), how many \
               files there can be, and how many more. One that is mounted in several places is \
               told once.",
        examples: &["> 10 [0] pio_space()\n\
                     < 10 [0] pio_space(0,[\"/\",\"/dev/sda1\",1000,400,300,64,32])"],
        act: Act::Synchronous(|ctx, args| space(ctx, args).into()),
        ..BLANK
    },
];

fn counts(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    const ALL: [F; 6] =
        [F::ReadCalls, F::WriteCalls, F::ReadChars, F::WrittenChars, F::ReadBytes, F::WrittenBytes];
    let chosen = ctx.processes(&args[0])?;
    let mut out = Vec::new();
    for it in &chosen.served {
        out.push(ctx.number(it.id));
        out.extend(ALL.map(|field| it.row.get(field).map_or(Value::from(-1), Value::from)));
    }
    let done = ctx.summed(&chosen.failed, chosen.served.len());
    if !done.status.is_success() {
        return Ok(done);
    }
    let results = [Value::List(out)].into_iter().chain(done.results).collect();
    Ok(Done { status: done.status, results, reason: None })
}

fn layout(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let wrong = || Refusal::new(Status::RANGE, "wanted the number of a descriptor");
    let descriptor = args[1].integer().ok_or_else(wrong)?;
    let id = ctx.process(&args[0])?.id;
    let it = ctx.ground.layout(id, descriptor)?;
    let extents = it
        .extents
        .iter()
        .flat_map(|it| [it.logical, it.physical, it.length, it.flags.into()].map(Value::from));
    let extents = Value::List(extents.collect());
    let path = Value::Text(Text::from(it.path));
    let status = if it.is_cut { Status::PARTIAL } else { Status::OK };
    let results = vec![path, Value::from(it.device.as_str()), it.size.into(), extents];
    Ok(Done { status, results, reason: None })
}

fn space(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Done, Refusal> {
    let mut all = Vec::new();
    for it in ctx.ground.space()? {
        all.extend([Value::from(it.path.as_str()), Value::from(it.source.as_str())]);
        all.extend([it.size, it.free, it.avail, it.files, it.files_free].map(Value::from));
    }
    Ok(Done::with(vec![Value::List(all)]))
}
