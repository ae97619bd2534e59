//! Shows the CPU time of each rank of a parallel job, and the functions that it is in.
//!
//! ```text
//! cargo run --example rank_tool [JOB]                   beside the first job, or the one named
//! monitor job attach JOB --daemon ./rank_tool           as a daemon beside each rank
//! ```

use monitor_client::tool::{Tool, Value};
use std::env::{args, var};
use std::error::Error;
use std::io::{Write as _, stderr, stdout};

/// The list that a service returns last.
fn list(tool: &Tool, service: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let last = tool.results(service)?.pop();
    Ok(last.as_ref().and_then(Value::list).ok_or("no list is returned")?.to_vec())
}

fn string(value: &Value) -> Option<String> {
    value.text().map(|text| text.to_str_lossy().into_owned())
}

/// The job, and the process of its program where this is the daemon of one rank.
fn job_beside(tool: &Tool) -> Result<(String, Option<String>), Box<dyn Error>> {
    if let Ok(rank) = var("MONITOR_JOB_RANK") {
        return Ok((format!("{}:{rank}", var("MONITOR_JOB_ID")?), Some(var("MONITOR_JOB_PID")?)));
    }
    let first = list(tool, "job_list()")?.first().and_then(string);
    Ok((args().nth(1).or(first).ok_or("no parallel job is visible on this node")?, None))
}

fn show(tool: &Tool, rank: &[Value], pid: &str) -> Result<(), Box<dyn Error>> {
    let frames = list(tool, &format!("stack_names({pid})"))?;
    let name = |frame: &[Value]| match string(&frame[2]) {
        Some(name) if !name.is_empty() => name,
        _ => format!("{:#x}", frame[0].integer::<u64>().unwrap_or_default()),
    };
    let names: Vec<String> = frames.chunks_exact(3).map(name).collect();
    let state = string(&rank[4]).ok_or("the state is no text")?;
    let cpu = rank[5].float().ok_or("the CPU time is no number")?;
    let (rank, names) = (&rank[0], names.join(" < "));
    Ok(writeln!(stdout(), "rank {rank}: process {pid} {state} {cpu:.2} s in {names}")?)
}

fn run() -> Result<(), Box<dyn Error>> {
    let tool = Tool::connect()?;
    let (job, program) = job_beside(&tool)?;
    let table = list(&tool, &format!("job_info(\"{job}\")"))?;
    let pid = |rank: &[Value]| program.clone().unwrap_or_else(|| rank[2].to_string());
    let pids: Vec<String> = table.chunks_exact(8).map(pid).collect();
    let _attached = tool.results(&format!("attach([{}])", pids.join(",")))?;
    // All ranks at one moment. A session that ends, also after an error, releases them.
    let _held = tool.results(&format!("job_hold(\"{job}\")"))?;
    for (rank, pid) in table.chunks_exact(8).zip(&pids) {
        show(&tool, rank, pid)?;
    }
    let _released = tool.results(&format!("job_release(\"{job}\")"))?;
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        // The exit code says it too, if standard error is closed.
        let _written = writeln!(stderr(), "rank_tool: {error}");
        std::process::exit(1);
    }
}
