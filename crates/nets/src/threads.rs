//! Threads of a pool that wait awake. The pieces of an update are tens of microseconds long, and to
//! wake a thread that fell asleep between two of them takes as long again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs `work` while another thread of the pool stays awake to take what [`both`] offers.
pub fn awake<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let done = AtomicBool::new(false);
    let work = || {
        let result = work();
        done.store(true, Ordering::Release);
        result
    };
    rayon::join(work, || wait(&done)).0
}

/// Runs two pieces, on two threads if another one is free. Other than with `rayon::join`, whoever
/// has to wait for the second stays awake.
pub fn both<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    let done = AtomicBool::new(false);
    let first = || {
        let result = first();
        wait(&done);
        result
    };
    let second = || {
        let result = second();
        done.store(true, Ordering::Release);
        result
    };
    rayon::join(first, second)
}

/// Takes work of the pool until `done`, but not for long without any: what is awaited may itself
/// wait for this thread, or have panicked. Then `rayon` waits in its own way.
fn wait(done: &AtomicBool) {
    const PATIENCE: Duration = Duration::from_micros(300);
    let mut idle = Instant::now();
    while !done.load(Ordering::Acquire) && idle.elapsed() < PATIENCE {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle = Instant::now();
        } else {
            // There may be more threads than cores.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    /// In pieces of pieces.
    fn sum(from: u64, to: u64) -> u64 {
        match to - from {
            1 => from,
            n => {
                let (a, b) = both(|| sum(from, from + n / 2), || sum(from + n / 2, to));
                a + b
            }
        }
    }

    #[test]
    fn any_number_of_threads_and_of_others_in_the_pool() {
        for threads in [1, 2, 3, 8] {
            let pool = pool(threads);
            for _ in 0..10 {
                std::thread::scope(|scope| {
                    let work = || pool.install(|| awake(|| sum(0, 1000)));
                    let others = [scope.spawn(work), scope.spawn(work), scope.spawn(work)];
                    assert!(others.into_iter().all(|other| other.join().unwrap() == 499_500));
                });
            }
        }
        assert_eq!(awake(|| sum(0, 1000)), 499_500, "outside of any pool");
    }

    #[test]
    fn a_panic_ends_the_waiting() {
        let pool = pool(2);
        let fails = |work: &(dyn Fn() + Sync)| {
            let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| awake(work))));
            assert!(result.is_err());
        };
        fails(&|| panic!("alone"));
        fails(&|| _ = both(|| panic!("first"), || sum(0, 100)));
        fails(&|| _ = both(|| sum(0, 100), || panic!("second")));
        assert_eq!(pool.install(|| awake(|| sum(0, 1000))), 499_500, "afterwards");
    }
}
