//! What is executed on each node, as files of a session take it.

use super::program::Program;
use crate::cli::args::RunArgs;
use crate::cli::exit::Failure;
use monitor_control::session::{assignments, quoted};
use monitor_sys::fsuid;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Nodes that files are copied to at a time.
const PUSHES: usize = 16;

/// What is executed on each node.
#[derive(Debug)]
pub struct RunPlan {
    /// The user to attach as.
    pub user: String,
    /// How long a node may take for a step.
    pub deadline: Duration,
    /// What is copied and executed.
    pub program: Program,
    /// The arguments.
    pub argv: Vec<u8>,
    /// Variables beside those that sessions begin with.
    pub env: Vec<u8>,
    /// The id that all sessions have in common.
    pub id: String,
    /// Nodes that files are copied to.
    pub pushes: Semaphore,
}

impl RunPlan {
    /// The plan of a command; `None` if its program does not exist.
    ///
    /// # Errors
    ///
    /// When an option is wrong, or a file cannot be read.
    pub fn new(args: &RunArgs) -> Result<Option<Self>, Failure> {
        let (command, options) = (&args.command[0], &args.on_nodes);
        let program = if options.in_place {
            Some(Program::in_place(command)?)
        } else {
            Program::copied(command)?
        };
        let env = quoted(options.env.iter().map(|it| it.as_bytes()));
        assignments(&env).map_err(|why| Failure::usage(format!("--env: {}", why.why)))?;
        let own = format!("#{}", fsuid::effective_uid());
        let plan = |program| Self {
            user: options.user.clone().unwrap_or(own),
            deadline: options.timeout,
            program,
            argv: quoted(args.command.iter().map(|it| it.as_bytes())),
            env,
            id: format!("run-{}", std::process::id()),
            pushes: Semaphore::new(PUSHES),
        };
        Ok(program.map(plan))
    }
}
