//! Threads that stay awake between one step of all robots and the next.
//!
//! A step of eight robots takes some hundred microseconds, and to wake a thread for it some tens: whoever has
//! nothing to do spins for a while before it falls asleep. Who asks for a step works, too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread spins before it falls asleep.
const AWAKE: Duration = Duration::from_micros(500);

/// Pieces of work that are done over and over, on some threads.
pub struct Crew<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    /// Only one can ask for it at a time.
    asking: Mutex<()>,
}

struct Shared<T> {
    pieces: Vec<Mutex<T>>,
    work: fn(&mut T),
    /// How often all was to be done.
    round: AtomicUsize,
    /// The next piece, and how many are done.
    next: AtomicUsize,
    done: AtomicUsize,
    ending: AtomicBool,
}

impl<T: Send + 'static> Crew<T> {
    /// Does `work` with each of these pieces, on so many threads with the one that asks for it.
    pub fn new(pieces: Vec<T>, threads: usize, work: fn(&mut T)) -> Self {
        let helpers = threads.min(pieces.len()).saturating_sub(1);
        let shared = Arc::new(Shared {
            next: AtomicUsize::new(pieces.len()),
            pieces: pieces.into_iter().map(Mutex::new).collect(),
            work,
            round: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
        });
        let helper = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.help())
        };
        let threads = (0..helpers).map(helper).collect();
        Self { shared, threads, asking: Mutex::new(()) }
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.shared.pieces.len()
    }

    /// One piece, to be changed while nothing is done.
    pub fn piece(&self, i: usize) -> Option<MutexGuard<'_, T>> {
        // A panic in it was told where it happened.
        self.shared.pieces.get(i).map(|piece| piece.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Does all of it once.
    pub fn work(&self) {
        let _alone = self.asking.lock();
        let Shared { round, next, done, pieces, .. } = &*self.shared;
        done.store(0, Ordering::Relaxed);
        next.store(0, Ordering::Release);
        round.fetch_add(1, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        self.shared.work();
        while done.load(Ordering::Acquire) < pieces.len() {
            std::hint::spin_loop();
        }
    }
}

impl<T> Shared<T> {
    /// Does pieces until none is left.
    fn work(&self) {
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::AcqRel)) {
            let _done = Done(&self.done);
            (self.work)(&mut piece.lock().unwrap_or_else(|e| e.into_inner()));
        }
    }

    fn help(&self) {
        let mut seen = 0;
        loop {
            let idle = Instant::now();
            while self.round.load(Ordering::Acquire) == seen {
                if self.ending.load(Ordering::Acquire) {
                    return;
                }
                match idle.elapsed() < AWAKE {
                    true => std::hint::spin_loop(),
                    false => std::thread::park(),
                }
            }
            seen = self.round.load(Ordering::Acquire);
            self.work();
        }
    }
}

/// Counts a piece as done, even where its work panics: nobody waits for it forever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
