//! Shows where the ranks of a parallel job are, and runs a command beside one rank of each place.
//!
//! ```text
//! cargo run --example where_tool JOB [COMMAND]
//! ```

use monitor_client::tool::{Tool, Value};
use std::env::{args, temp_dir};
use std::error::Error;
use std::io::{Write as _, stderr, stdout};
use std::path::Path;
use std::{fs, thread, time::Duration};

type Failure = Box<dyn Error>;

fn string(value: &Value) -> String {
    value.text().map(|text| text.to_str_lossy().into_owned()).unwrap_or_default()
}

fn list(value: Option<&Value>) -> Result<&[Value], Failure> {
    Ok(value.and_then(Value::list).ok_or("no list is returned")?)
}

/// What the command writes that the service runs beside a rank, as the user of this tool.
fn run_beside(tool: &Tool, rank: &str, command: &str) -> Result<String, Failure> {
    let file = temp_dir().join(format!("where_tool-{}", std::process::id()));
    let out = file.display();
    let _set = tool.results(&format!("start_options(\"\",[],[\"\",\"{out}\",\"{out}\"])"))?;
    let command = Value::from(command);
    let started = tool.results(&format!("job_attach(\"{rank}\",{command},\"process\")"))?;
    for daemon in list(started.first())?.chunks_exact(2) {
        while Path::new(&format!("/proc/{}", daemon[1])).exists() {
            thread::sleep(Duration::from_millis(50));
        }
    }
    let written = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    Ok(written)
}

fn run() -> Result<(), Failure> {
    let job = args().nth(1).ok_or("usage: where_tool JOB [COMMAND]")?;
    let id = job.split(':').next().unwrap_or_default();
    let tool = Tool::connect()?;
    let stacks = tool.results(&format!("job_stacks(\"{job}\",\"first\")"))?;
    for class in list(stacks.first())?.chunks_exact(4) {
        let path: Vec<String> = list(class.get(3))?.iter().map(string).collect();
        let main = path.iter().position(|name| name == "main").unwrap_or(0);
        writeln!(stdout(), "ranks {}: {}", string(&class[0]), path[main..].join(" > "))?;
        if let Some(command) = args().nth(2) {
            let written = run_beside(&tool, &format!("{id}:{}", class[1]), &command)?;
            write!(stdout(), "{written}")?;
        }
    }
    for row in list(stacks.get(2))?.chunks_exact(4) {
        let why = string(&row[3]);
        writeln!(stderr(), "rank {}, process {}: {} {why}", row[0], row[1], row[2])?;
    }
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        // The exit code says it too, if standard error is closed.
        let _written = writeln!(stderr(), "where_tool: {error}");
        std::process::exit(1);
    }
}
