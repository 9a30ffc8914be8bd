//! Worker processes: each is a Python of its own that plays whole episodes and segments.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmdp::EnvSpec;
use ecrl::collect::remote::{Link, Remote, serve, share};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::env::{PyEnv, told};
use crate::here::Here;
use crate::interrupt;

/// How long a worker may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// A worker process and the line to it.
struct Worker {
    child: Child,
    line: UnixStream,
    /// The lines to all of them: they end at the same time.
    all: Arc<Mutex<Vec<UnixStream>>>,
}

/// Begins a worker: what lies in the current folder must not come before Python's own modules, and this
/// package is where it was found.
const BEGIN: &str = "\
import sys
if sys.path[0] == '': del sys.path[0]
if sys.argv[1] not in sys.path: sys.path.append(sys.argv[1])
from ecrl._worker import main
main()";

/// Starts workers that make their environments from `payload`, which Python's `_worker` understands.
pub fn start(
    [python, package]: [&str; 2],
    payload: &[u8],
    spec: EnvSpec,
    workers: usize,
    running: usize,
) -> Result<Remote, String> {
    let cannot = |error: io::Error| format!("cannot start a worker: {error}");
    let (mut all, lines) = (Vec::new(), Arc::default());
    for _ in 0..workers {
        let (line, theirs) = UnixStream::pair().map_err(cannot)?;
        line.set_read_timeout(Some(Duration::from_millis(100))).map_err(cannot)?;
        let mut command = Command::new(python);
        command.args(["-c", BEGIN, package]);
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        // SAFETY: between fork and exec, only two system calls that may be made there.
        unsafe {
            command.pre_exec(|| {
                // Ctrl-C is the training's to answer, and without that nobody is there to play for.
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().map_err(cannot)?;
        let lines: &Arc<Mutex<Vec<UnixStream>>> = &lines;
        lines.lock().expect("no panic").push(line.try_clone().map_err(cannot)?);
        all.push(Worker { child, line, all: Arc::clone(lines) });
    }
    // All at once: they take a while to start.
    for (i, worker) in all.iter_mut().enumerate() {
        let numbers: Vec<u64> = share(i, workers, running).collect();
        let numbers = serde_json::to_vec(&numbers).map_err(|e| e.to_string())?;
        worker.send(&numbers).and_then(|()| worker.send(payload)).map_err(cannot)?;
    }
    for worker in &mut all {
        let ready = worker.receive()?;
        if !ready.is_empty() {
            return Err(String::from_utf8_lossy(&ready).into_owned());
        }
    }
    let links = all.into_iter().map(|worker| Box::new(worker) as Box<dyn Link>).collect();
    Ok(Remote::new(spec, links, running))
}

impl Worker {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_frame(&mut self.line, bytes)
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        let interrupted =
            || if interrupt::insisted() { Err(INTERRUPTED.to_owned()) } else { Ok(()) };
        match read_frame(&mut self.line, interrupted) {
            Ok(frame) => Ok(frame),
            Err(Ended::Asked(why)) => Err(why),
            Err(Ended::Line) => {
                std::thread::sleep(Duration::from_millis(50)); // it may be about to tell its exit code
                let status = self.child.try_wait().ok().flatten();
                let how =
                    status.map_or("does not answer".into(), |status| format!("ended: {status}"));
                Err(format!("a worker process {how}"))
            }
        }
    }
}

/// Why there is no reply where Ctrl-C was pressed again.
const INTERRUPTED: &str = "interrupted";

impl Link for Worker {
    fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        // Where it cannot be written, reading tells why.
        let _ = self.send(request);
        self.receive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for line in self.all.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            let _ = line.shutdown(std::net::Shutdown::Both);
        }
        let deadline =
            Instant::now() + if interrupt::insisted() { Duration::ZERO } else { PATIENCE };
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Ended {
    Asked(String),
    Line,
}

fn write_frame(line: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    line.write_all(&(bytes.len() as u64).to_le_bytes())?;
    line.write_all(bytes)
}

fn read_frame(
    line: &mut UnixStream,
    go_on: impl Fn() -> Result<(), String>,
) -> Result<Vec<u8>, Ended> {
    let mut length = [0; 8];
    fill(line, &mut length, &go_on)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    fill(line, &mut bytes, &go_on)?;
    Ok(bytes)
}

fn fill(
    line: &mut UnixStream,
    mut bytes: &mut [u8],
    go_on: &impl Fn() -> Result<(), String>,
) -> Result<(), Ended> {
    while !bytes.is_empty() {
        match line.read(bytes) {
            Ok(0) => return Err(Ended::Line),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {
                    go_on().map_err(Ended::Asked)?;
                }
                _ => return Err(Ended::Line),
            },
        }
    }
    Ok(())
}

/// The other end: makes its environments with `make`, which takes the payload, and plays until the line
/// ends. `make` returns a callable that makes an adapter.
#[pyfunction]
pub fn work(py: Python, line: i32, make: Bound<PyAny>) -> PyResult<()> {
    // SAFETY: the descriptor is the caller's to give, and given away.
    let mut line = UnixStream::from(unsafe { OwnedFd::from_raw_fd(line) });
    let wait = || Ok(());
    let mut receive = |py: Python| py.detach(|| read_frame(&mut line, wait));
    // Whoever started it has ended meanwhile.
    let Ok(numbers) = receive(py) else { return Ok(()) };
    let Ok(payload) = receive(py) else { return Ok(()) };
    let made = stage(py, &numbers, &payload, &make);
    let said = made.as_ref().err().map_or(String::new(), |error| told(py, error));
    let sent = py.detach(|| write_frame(&mut line, said.as_bytes()));
    let (Ok(mut stage), Ok(())) = (made, sent) else { return Ok(()) };
    py.detach(|| {
        while let Ok(request) = read_frame(&mut line, wait) {
            let Some(reply) = serve(&mut stage, &request) else { return };
            if write_frame(&mut line, &reply).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn stage(py: Python, numbers: &[u8], payload: &[u8], make: &Bound<PyAny>) -> PyResult<Here> {
    let numbers: Vec<u64> = serde_json::from_slice(numbers).map_err(crate::env::value_error)?;
    let make = make.call1((PyBytes::new(py, payload),))?;
    let env = || PyEnv::new(&make.call0()?, Default::default());
    let playing = env()?;
    let running =
        numbers.into_iter().map(|number| Ok((env()?, number))).collect::<PyResult<_>>()?;
    Ok(Here::new(playing, running))
}
