//! An update allocates nothing once its buffers exist.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ecrl::learners::critic::Price;
use ecrl::learners::sac::{Sac, SacConfig};
use ecrl::memory::replay::{Replay, Transition};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_update_reuses_its_buffers() {
    let mut replay = Replay::new(1000, 17, 6, 1);
    for i in 0..1000 {
        let x = i as f32 / 1000.0;
        replay.push(Transition {
            obs: &[x; 17],
            action: &[x - 0.5; 6],
            reward: x,
            costs: &[x],
            multipliers: &[0.1],
            next_obs: &[x; 17],
            terminated: false,
        });
    }
    let mut rngs = [cmdp::rng([1; 4]), cmdp::rng([2; 4])];
    let mut sac = Sac::new(SacConfig::default(), [17, 6, 0], &mut cmdp::rng([0; 4]));
    // One thread: with two, it is a matter of chance when each first needs its scratch space.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let counted = pool.install(|| {
        (0..20).for_each(|_| _ = sac.update(&replay, Price::Stored, &mut rngs));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..20).for_each(|_| _ = sac.update(&replay, Price::Stored, &mut rngs));
        ALLOCATIONS.load(Ordering::Relaxed) - before
    });
    assert_eq!(counted, 0);
}
