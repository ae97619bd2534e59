//! `monitor files`: lists, reads and writes the files of the 9P socket, without a mount.
//!
//! In: paths, and standard input. Out: names or contents. What the files say and do comes from the
//! daemon; nothing is computed here.

use super::args::files::{CertificateArgs, FilesArgs, FilesCommand, FilesSourceArgs};
use super::config::print_errors;
use super::exit::{Exit, Failure};
use super::output::{Output, OutputState, print};
use monitor_client::socket_path;
use monitor_ninep::Stat;
use monitor_ninep::client::{Client, ClientError};
use monitor_remote::{Address, BlockingStream, CertificateFiles};
use monitor_server::daemon::config::LoadedConfig;
use monitor_sys::fsuid;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

/// Most bytes that are read of standard input at once.
const WRITE_BYTES: usize = 32 << 10;
/// How long connecting to another machine may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

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
fn cat(client: &mut Client<BlockingStream>, path: &str) -> Result<(), Failure> {
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
fn write(client: &mut Client<BlockingStream>, path: &str) -> Result<(), Failure> {
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
fn list(client: &mut Client<BlockingStream>, path: &str) -> Result<Vec<Stat>, ClientError> {
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
fn connect(source: &FilesSourceArgs) -> Result<Client<BlockingStream>, Failure> {
    let beside = |mut it: PathBuf| {
        it.as_mut_os_string().push(".9p");
        Address::Unix(it)
    };
    let named = source.daemon.socket.as_deref();
    let candidates: Vec<Address> = match &source.at {
        Some(written) => vec![named_address(written)?],
        None => socket_path::candidates(named).into_iter().map(beside).collect(),
    };
    let needs_tls = candidates.iter().any(|it| matches!(it, Address::Tls(_)));
    let certificate = if needs_tls { Some(certificate_files(&source.certificate)?) } else { None };
    let mut last = None;
    for address in &candidates {
        match BlockingStream::connect(address, certificate.as_ref(), CONNECT_TIME) {
            Ok(stream) => return attach(stream, (address, source)),
            Err(error) => last = Some((address, error)),
        }
    }
    let why = last.map_or_else(String::new, |(address, why)| format!("{address}: {why}"));
    let message = match &source.at {
        Some(_) => format!("cannot connect to {why}"),
        None => format!(
            "no daemon serves files here ({why}): start `monitor serve`, or name its socket with \
             --at"
        ),
    };
    Err(Failure { message, exit: Exit::NoDaemon })
}

/// The address of `--at`; a path may be relative.
fn named_address(written: &str) -> Result<Address, Failure> {
    match written.parse() {
        Ok(address) => Ok(address),
        Err(_) if !written.contains('!') => Ok(Address::unix(written)),
        Err(why) => Err(Failure::usage(format!("--at: {why}"))),
    }
}

/// The certificate for TLS: that of the options, else that of the configuration.
fn certificate_files(args: &CertificateArgs) -> Result<CertificateFiles, Failure> {
    if let (Some(certificate), Some(key), Some(authority)) =
        (&args.certificate, &args.key, &args.authority)
    {
        let [certificate, key, authority] = [certificate, key, authority].map(Clone::clone);
        return Ok(CertificateFiles { certificate, key, authority });
    }
    let loaded = LoadedConfig::read(args.config.as_deref()).map_err(print_errors)?;
    let named = loaded.config.files_listen.check().map_err(Failure::usage)?;
    let absent = || {
        Failure::usage(
            "an address with TLS needs the certificate of a node: name --certificate, --key and \
             --authority, or a configuration with files.certificate, files.key and \
             files.authority",
        )
    };
    named.ok_or_else(absent)
}

/// Attaches as the user that is named, else as the one of this process; over TCP as `none`.
fn attach(
    stream: BlockingStream,
    (address, source): (&Address, &FilesSourceArgs),
) -> Result<Client<BlockingStream>, Failure> {
    let own = match stream {
        BlockingStream::Unix(_) => format!("#{}", fsuid::effective_uid()),
        BlockingStream::Tcp(_) | BlockingStream::Tls(_) => "none".to_owned(),
    };
    let user = source.user.as_deref().unwrap_or(&own);
    Client::attach(stream, user).map_err(|error| {
        // With TLS 1.3, what the other end says of a certificate comes with the first reply.
        let message = match (address, &error) {
            (Address::Tls(_), ClientError::Stream(why)) => {
                format!("{address} does not accept the certificate of this node: {why}")
            }
            _ => format!("cannot attach as {user}: {error}"),
        };
        Failure { message, exit: exit(&error) }
    })
}

/// A refusal with the explanation of the file `err`.
fn failed(path: &str, error: ClientError, client: &mut Client<BlockingStream>) -> Failure {
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
