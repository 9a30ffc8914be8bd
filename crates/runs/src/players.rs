//! Players on a Ray cluster: actors that play episodes for a training here. A process of the Python package speaks with
//! them for this one.
//!
//! Frames cross its standard input and output: the number of a player (u32), a length (u64, little-endian) and as many
//! bytes. To a player: what it is made of, then requests; nothing at all asks for another in its place. From one: a byte
//! that is 0 before a reply and 1 before the reason why there is none.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmdp::EnvSpec;
use ecrl::collect::remote::{Link, Remote, share};

use crate::process;
use crate::shell::printable;

/// The module that speaks for this process.
const MODULE: &str = "ecrl._ray_players";

/// Whoever speaks for all players says how many there are.
const ALL: u32 = u32::MAX;

/// What was answered, or why nothing was.
type Answer = Result<Vec<u8>, String>;

/// The process that speaks for this one; it ends when the last player is dropped.
struct Speaker {
    child: Child,
    tell: Option<ChildStdin>,
}

impl Speaker {
    fn send(&mut self, player: u32, bytes: &[u8]) -> io::Result<()> {
        let tell = self.tell.as_mut().expect("until it is dropped");
        tell.write_all(&player.to_le_bytes())?;
        tell.write_all(&(bytes.len() as u64).to_le_bytes())?;
        tell.write_all(bytes)?;
        tell.flush()
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        drop(self.tell.take());
        let _ = self.child.wait();
    }
}

/// A line to one player.
struct Player {
    number: u32,
    speaker: Arc<Mutex<Speaker>>,
    answers: Receiver<Answer>,
}

impl Link for Player {
    fn call(&mut self, request: &[u8]) -> Answer {
        {
            let mut speaker = self.speaker.lock().unwrap_or_else(|error| error.into_inner());
            // Where it cannot be written, waiting for the answer tells why.
            let _ = speaker.send(self.number, request);
        }
        self.answers.recv().unwrap_or_else(|_| Err(ENDED.into()))
    }

    fn renews(&self) -> bool {
        true
    }

    fn again(&mut self) -> Result<(), String> {
        let begun = self.call(&[]);
        if begun.is_err() {
            // Until it is known which machine is gone.
            std::thread::sleep(PAUSE);
        }
        begun.map(|_| ())
    }
}

/// Before another is asked for where the last one could not begin.
const PAUSE: Duration = Duration::from_secs(4);

const ENDED: &str = "the process that speaks with Ray has ended";

/// Starts players at a Ray's address; `count` of them, or as many as it has processors. What each is made of is
/// `payload` of the numbers of its running environments.
pub fn start(
    address: &str,
    program: &[OsString],
    count: Option<usize>,
    spec: EnvSpec,
    running: usize,
    payload: impl Fn(Vec<u64>) -> Vec<u8>,
) -> Result<Remote, String> {
    let python = process::python(program);
    let shown = printable(&python.to_string_lossy());
    let mut command = Command::new(&python);
    command.args(["-m", MODULE, address, &count.unwrap_or(0).to_string()]);
    process::bound(&mut command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown}: {error}; expected a Python with ecrl and ray"))?;
    let mut output = child.stdout.take().expect("piped");
    let tell = child.stdin.take();
    let speaker = Arc::new(Mutex::new(Speaker { child, tell }));
    let count = match frame(&mut output) {
        Some((ALL, Ok(bytes))) => String::from_utf8_lossy(&bytes).parse().unwrap_or(0),
        Some((_, answer)) => return Err(answer.err().unwrap_or_default()),
        None => {
            return Err(format!(
                "{ENDED} before it began; expected Python's packages ecrl and ray in {shown}"
            ));
        }
    };
    let (senders, receivers): (Vec<Sender<Answer>>, Vec<Receiver<Answer>>) =
        (0..count).map(|_| mpsc::channel()).unzip();
    std::thread::spawn(move || {
        while let Some((player, answer)) = frame(&mut output) {
            let Some(sender) = senders.get(player as usize) else { return };
            // Nobody may wait any more.
            let _ = sender.send(answer);
        }
    });
    let player = |(number, answers)| Player { number, speaker: Arc::clone(&speaker), answers };
    let players: Vec<Player> = (0..).zip(receivers).map(player).collect();
    // All at once: they take a while to start.
    for player in &players {
        let numbers = share(player.number as usize, count, running).collect();
        let mut speaker = speaker.lock().unwrap_or_else(|error| error.into_inner());
        let _ = speaker.send(player.number, &payload(numbers));
    }
    for player in &players {
        player.answers.recv().unwrap_or_else(|_| Err(ENDED.into()))?;
    }
    let links = players.into_iter().map(|player| Box::new(player) as Box<dyn Link>).collect();
    Ok(Remote::new(spec, links, running))
}

/// Reads a frame; nothing where there are no more.
fn frame(input: &mut impl Read) -> Option<(u32, Answer)> {
    let (mut player, mut length, mut status) = ([0; 4], [0; 8], [0; 1]);
    input.read_exact(&mut player).ok()?;
    input.read_exact(&mut length).ok()?;
    input.read_exact(&mut status).ok()?;
    let mut bytes = vec![0; u64::from_le_bytes(length).checked_sub(1)? as usize];
    input.read_exact(&mut bytes).ok()?;
    let answer = match status {
        [0] => Ok(bytes),
        _ => Err(String::from_utf8_lossy(&bytes).into_owned()),
    };
    Some((u32::from_le_bytes(player), answer))
}
