//! `monitor files`: lists, reads and writes the files of the 9P socket, without a mount.
//!
//! In: paths, and standard input. Out: names or contents. What the files say and do comes from the
//! daemon; nothing is computed here.

use super::args::files::{FilesArgs, FilesCommand, FilesSourceArgs};
use super::exit::{Exit, Failure};
use super::output::{Output, OutputState, print};
use monitor_client::socket_path;
use monitor_ninep::Stat;
use monitor_ninep::client::{Client, ClientError};
use monitor_remote::Address;
use monitor_sys::fsuid;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Most bytes that are read of standard input at once.
const WRITE_BYTES: usize = 32 << 10;

/// Lists, reads or writes.
pub fn files(args: &FilesArgs) -> Result<Exit, Failure> {
    match &args.command {
        FilesCommand::Ls { path, long, source } => {
            let mut client = connect(source)?;
            let entries = list(&mut client, path).map_err(|it| failed(path, it, &mut client))?;
            let text = if *long { long_lines(&entries) } else { names(&entries) };
            print(text.as_bytes())
        }
        FilesCommand::Write { path, source } => {
            let mut client = connect(source)?;
            write(&mut client, path)?;
            Ok(Exit::Ok)
        }
        FilesCommand::Cat { paths, source } => {
            let mut client = connect(source)?;
            for path in paths {
                cat(&mut client, path)?;
            }
            Ok(Exit::Ok)
        }
    }
}

/// Prints a file as its content arrives, until the reader of the output closes it.
fn cat(client: &mut Client<FilesStream>, path: &str) -> Result<(), Failure> {
    let (mut output, mut failure) = (Output::Stream, None);
    let read = client.read_while(path, |content| match output.put(content) {
        Ok(state) => state == OutputState::Open,
        Err(error) => {
            failure = Some(error);
            false
        }
    });
    read.map_err(|error| failed(path, error, client))?;
    failure.map_or(Ok(()), Err)
}

/// Writes standard input to a file as it arrives: what a file of a session takes at once is a line
/// or more, never half of what one read has brought.
fn write(client: &mut Client<FilesStream>, path: &str) -> Result<(), Failure> {
    let mut input = std::io::stdin().lock();
    let opened = client.open_to_write(path);
    opened.map_err(|error| failed(path, error, client))?;
    let mut part = vec![0; WRITE_BYTES];
    loop {
        let read = input.read(&mut part);
        let count = read.map_err(|why| Failure::failed(format!("standard input: {why}")))?;
        if count == 0 {
            return client.close().map_err(|error| failed(path, error, client));
        }
        let written = client.write_on(&part[..count]);
        written.map_err(|error| failed(path, error, client))?;
    }
}

/// The entries of a directory, or a file as its only entry.
fn list(client: &mut Client<FilesStream>, path: &str) -> Result<Vec<Stat>, ClientError> {
    let stat = client.stat(path)?;
    if stat.qid.is_directory() { client.list(path) } else { Ok(vec![stat]) }
}

fn names(entries: &[Stat]) -> String {
    entries.iter().fold(String::new(), |mut out, it| {
        let _ = writeln!(out, "{}{}", it.name, if it.qid.is_directory() { "/" } else { "" });
        out
    })
}

fn long_lines(entries: &[Stat]) -> String {
    entries.iter().fold(String::new(), |mut out, it| {
        let (mode, user, group) = (mode(it), &it.user, &it.group);
        let _ = writeln!(out, "{mode} {user:<8} {group:<8} {:>9} {}", it.length, it.name);
        out
    })
}

/// The mode as ls(1) prints it.
fn mode(stat: &Stat) -> String {
    let letters = "rwxrwxrwx".chars().enumerate();
    let bits = letters.map(|(at, it)| if stat.mode & (0o400 >> at) != 0 { it } else { '-' });
    std::iter::once(if stat.qid.is_directory() { 'd' } else { '-' }).chain(bits).collect()
}

/// A client of the first socket that answers.
fn connect(source: &FilesSourceArgs) -> Result<Client<FilesStream>, Failure> {
    let beside = |mut it: PathBuf| {
        it.as_mut_os_string().push(".9p");
        Address::Unix(it)
    };
    let named = source.daemon.socket.as_deref();
    let candidates: Vec<Address> = match &source.at {
        Some(written) => vec![named_address(written)?],
        None => socket_path::candidates(named).into_iter().map(beside).collect(),
    };
    let mut last = None;
    for address in &candidates {
        match FilesStream::connect(address) {
            Ok(stream) => return attach(stream, source),
            Err(error) => last = Some((address, error)),
        }
    }
    let why = last.map_or_else(String::new, |(address, why)| format!("{address}: {why}"));
    let message = format!(
        "no daemon serves files here ({why}): start `monitor serve`, or name its socket with --at"
    );
    Err(Failure { message, exit: Exit::NoDaemon })
}

/// The address of `--at`; a path may be relative.
fn named_address(written: &str) -> Result<Address, Failure> {
    match written.parse() {
        Ok(Address::Tls(_)) => {
            let why = "--at: addresses with TLS are for services, as in files.nodes: use ssh -L \
                       to the Unix socket";
            Err(Failure::usage(why))
        }
        Ok(address) => Ok(address),
        Err(_) if !written.contains('!') => Ok(Address::unix(written)),
        Err(why) => Err(Failure::usage(format!("--at: {why}"))),
    }
}

/// Attaches as the user that is named, else as the one of this process; over TCP as `none`.
fn attach(stream: FilesStream, source: &FilesSourceArgs) -> Result<Client<FilesStream>, Failure> {
    let own = match stream {
        FilesStream::Unix(_) => format!("#{}", fsuid::effective_uid()),
        FilesStream::Tcp(_) => "none".to_owned(),
    };
    let user = source.user.as_deref().unwrap_or(&own);
    Client::attach(stream, user).map_err(|error| {
        let message = format!("cannot attach as {user}: {error}");
        Failure { message, exit: exit(&error) }
    })
}

/// The stream to a service.
enum FilesStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl FilesStream {
    fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(at) | Address::Tls(at) => {
                let stream = TcpStream::connect((at.host.as_str(), at.port))?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }
}

impl Read for FilesStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(it) => it.read(bytes),
            Self::Tcp(it) => it.read(bytes),
        }
    }
}

impl Write for FilesStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(it) => it.write(bytes),
            Self::Tcp(it) => it.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(it) => it.flush(),
            Self::Tcp(it) => it.flush(),
        }
    }
}

/// A refusal with the explanation of the file `err`.
fn failed(path: &str, error: ClientError, client: &mut Client<FilesStream>) -> Failure {
    let explanation = match &error {
        ClientError::Refused(_) | ClientError::NotFound => client.explanation(),
        ClientError::Stream(_) | ClientError::Protocol(_) => String::new(),
    };
    let why = if explanation.is_empty() { String::new() } else { format!(": {explanation}") };
    Failure { message: format!("{path}: {error}{why}"), exit: exit(&error) }
}

fn exit(error: &ClientError) -> Exit {
    let denied = ["Permission denied", "Operation not permitted"];
    match error {
        ClientError::Refused(text) if denied.contains(&text.as_str()) => Exit::Denied,
        ClientError::Stream(_) => Exit::NoDaemon,
        _ => Exit::Failed,
    }
}
