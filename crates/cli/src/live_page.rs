//! `ecrl live`, and `ecrl train --live`: runs as they grow, in a browser.

use std::fs::File;
use std::io::{Read as _, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use clap::Args;
use ecrl::evaluate;
use report::live::{Server, ServerError};
use report::playback;

use crate::failure::Failure;
use crate::policies;
use crate::stop::Stop;

/// Episodes of which the robot shows the typical one: fewer than `ecrl play` takes, as it is asked often.
const OF: usize = 3;
/// Where the page is, if nobody says otherwise and it is free there.
const PORT: u16 = 6100;

#[derive(Args)]
pub struct LiveArgs {
    /// Folders that hold runs, at any depth; those that are not there yet may come [default: runs, experiments]
    folders: Vec<PathBuf>,
    /// The address to listen on; where that is not this machine's own alone, the page needs the token that is printed
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// The port [default: 6100, or another one where that is taken]
    #[arg(long)]
    port: Option<u16>,
    /// Do not open a browser
    #[arg(long)]
    quiet: bool,
}

pub fn live(args: LiveArgs, output: &mut impl Write) -> Result<(), Failure> {
    let folders = match &args.folders[..] {
        [] => vec!["runs".into(), "experiments".into()],
        folders => folders.to_vec(),
    };
    if let Some(file) = folders.iter().find(|path| path.exists() && !path.is_dir()) {
        let file = file.display();
        return Err(Failure::input(format!("{file}: expected a folder that holds runs")));
    }
    let server = server(args.listen, args.port, folders)?;
    writeln!(output, "{}\nCtrl-C ends it", server.address())?;
    output.flush()?;
    if !args.quiet {
        open(&server.address());
    }
    let stop = Stop::install()?;
    server.serve(|| stop.asked())?;
    Ok(())
}

/// The page beside a training, as long as this lives.
pub struct Beside {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Shows the runs of the folder that a run is in.
    pub fn of(run: &Path, output: &mut impl Write) -> Result<Self, Failure> {
        let run = std::path::absolute(run).map_err(Failure::run)?;
        let folder = run.parent().unwrap_or(&run).to_owned();
        let server = server(IpAddr::V4(Ipv4Addr::LOCALHOST), None, vec![folder])?;
        writeln!(output, "live: {}", server.address())?;
        output.flush()?;
        open(&server.address());
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let serve = move || drop(server.serve(|| stop.load(Ordering::Relaxed)));
        Ok(Self { ended, thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn server(ip: IpAddr, port: Option<u16>, folders: Vec<PathBuf>) -> Result<Server, Failure> {
    let at = |port| Server::new(SocketAddr::new(ip, port), folders.clone(), token, Box::new(robot));
    match (at(port.unwrap_or(PORT)), port) {
        (Err(ServerError::Listen { .. }), None) => Ok(at(0)?),
        (server, _) => Ok(server?),
    }
}

/// A word that nobody guesses.
fn token() -> String {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.expect("every Linux has it");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a browser where there is a screen for one.
fn open(address: &str) {
    if ["DISPLAY", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none()) {
        return;
    }
    let mut browser = Command::new("xdg-open");
    browser.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Who has none types the address.
    let _ = browser.spawn();
}

/// The page on which the best policy of a run plays.
fn robot(run: &Path) -> Result<String, String> {
    let play = || -> Result<String, Failure> {
        let (mut robot, policy) = policies::best_of(run)?;
        let mut record =
            |i: usize| playback::record(&mut *robot, &policy, evaluate::key(0, i as u64));
        let returns: Vec<f64> = (0..OF).map(|i| record(i).episode.reward()).collect();
        let typical = playback::typical(&returns);
        let chosen = format!("episode {}, the median of {OF} by return", typical + 1);
        Ok(record(typical).page(&chosen))
    };
    play().map_err(|failure| failure.message)
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        Self::input(error)
    }
}
