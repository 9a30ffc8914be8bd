//! How fast the learner learns, beside how fast this machine multiplies.
//!
//! The standard workload: 17 observations, 6 actions, batch 512, all networks 256-256, twin
//! critics, drawing from the replay buffer and the noise included. One such update takes 1.15 GFLOP
//! of matrix products; what share of the machine's own peak that makes is the figure to watch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ecrl::learners::critic::Price;
use ecrl::learners::off_policy::Learner as _;
use ecrl::learners::sac::{Sac, SacConfig};
use ecrl::memory::replay::{Replay, Transition};
use gemm_common::Parallelism;
use nets::gaussian;
use rand::RngExt as _;
use rand_distr::StandardNormal;
use serde::Serialize;

const OBS: usize = 17;
const ACTIONS: usize = 6;
/// Transitions in the replay buffer: far more than any cache holds.
const STORED: usize = 200_000;

/// What was measured; figures are medians over rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpdateReport {
    /// Threads in use.
    pub threads: usize,
    /// The arithmetic of the networks.
    pub precision: &'static str,
    /// Milliseconds of one update.
    pub ms_per_update: f64,
    /// Matrix arithmetic achieved in updates, in GFLOPS.
    pub gflops: f64,
    /// The kernel of the crate `gemm` multiplying 512×256×256 on as many threads, in GFLOPS.
    pub gemm_peak_gflops: f64,
    /// Achieved over peak.
    pub ratio: f64,
    /// How much faster an update is than on one thread, measured in the same rounds.
    pub speedup: f64,
    /// How much faster the plain products are: what this machine's cores give each other room for.
    pub gemm_peak_speedup: f64,
    /// Microseconds to draw one action for one observation.
    pub action_us: f64,
}

/// Measures updates on `threads` threads.
pub fn update(threads: usize, rounds: usize) -> Result<UpdateReport, rayon::ThreadPoolBuildError> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let (all, one) = (pool(threads)?, pool(1)?);
    let mut rng = cmdp::rng([0; 4]);
    let config = SacConfig::default();
    let mut sac = Sac::new(config.clone(), [OBS, ACTIONS, 0], &mut rng);
    let replay = filled_replay(&mut rng);
    let flops = flops_per_update(&config, OBS, ACTIONS);
    let mut rngs = [cmdp::rng([1, 0, 0, 0]), cmdp::rng([1, 0, 0, 1])];
    let mut updates = |pool: &rayon::ThreadPool| {
        const REPEATS: usize = 10;
        pool.install(|| {
            // The first ones after other threads had the cores are slower; training has no such.
            (0..3).for_each(|_| _ = sac.update(&replay, Price::Stored, &mut rngs));
            let start = Instant::now();
            (0..REPEATS).for_each(|_| _ = sac.update(&replay, Price::Stored, &mut rngs));
            start.elapsed().as_secs_f64() / REPEATS as f64
        })
    };
    let rounds: Vec<[f64; 5]> = (0..rounds)
        .map(|_| {
            let (before, seconds) = (gemm_peak(&all), updates(&all));
            let peak = (before + gemm_peak(&all)) / 2.0;
            let (single, single_peak) = match threads {
                1 => (seconds, peak),
                _ => (updates(&one), gemm_peak(&one)),
            };
            [seconds, peak, flops / seconds / peak, single / seconds, peak / single_peak]
        })
        .collect();
    let [seconds, peak, ratio, speedup, gemm_peak_speedup] =
        std::array::from_fn(|i| cmdp::median(rounds.iter().map(|round| round[i])));
    Ok(UpdateReport {
        threads,
        precision: "f32",
        ms_per_update: 1e3 * seconds,
        gflops: flops / seconds / 1e9,
        gemm_peak_gflops: peak / 1e9,
        ratio,
        speedup,
        gemm_peak_speedup,
        action_us: action_us(&sac, &mut rng),
    })
}

/// Floating-point operations of the matrix products of one update, as the formulas state them.
fn flops_per_update(config: &SacConfig, obs: usize, actions: usize) -> f64 {
    let hidden: usize = config.hidden.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let (first, last) = (config.hidden[0], config.hidden[config.hidden.len() - 1]);
    let inputs = obs + actions;
    let critic = inputs * first + hidden + last;
    let actor = obs * first + hidden + last * 2 * actions;
    // Back to weights costs a forward pass; back to the layers below, all but the first layer.
    let improve_critic = 2 * critic + (hidden + last);
    let improve_actor = 2 * actor + (hidden + last * 2 * actions);
    let through_critic = critic + (hidden + last) + actions * first;
    let products = actor + 2 * critic + 2 * improve_critic + 2 * through_critic + improve_actor;
    (2 * config.batch * products) as f64
}

fn filled_replay(rng: &mut cmdp::Rng) -> Replay {
    let mut replay = Replay::new(STORED, OBS, ACTIONS, 1);
    let mut row = [0.0f32; 2 * OBS + ACTIONS];
    for i in 0..STORED {
        row.fill_with(|| rng.random_range(-1.0..1.0));
        let (obs, rest) = row.split_at(OBS);
        let (action, next_obs) = rest.split_at(ACTIONS);
        let (costs, multipliers) = (&[0.4], &[0.001]);
        let (reward, terminated) = (1.0, i % 100 == 0);
        replay.push(Transition { obs, action, reward, costs, multipliers, next_obs, terminated });
    }
    replay
}

/// Operations a second of plain products, each thread taking the next when it has done one. By the
/// kernel of the crate `gemm`, which does as well as MKL: a measure that nobody here wrote.
fn gemm_peak(pool: &rayon::ThreadPool) -> f64 {
    let repeats = 60 * pool.current_num_threads();
    // 512 rows times a 256 x 256 matrix, transposed: this kernel likes columns.
    let (m, n, k) = (256, 512, 256);
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let multiply = gemm_f32::gemm::f32::get_gemm_fn();
    let products = |count: usize| {
        let taken = AtomicUsize::new(0);
        pool.broadcast(|_| {
            let mut out = vec![0.0f32; m * n];
            while taken.fetch_add(1, Ordering::Relaxed) < count {
                let (out, a, b) = (out.as_mut_ptr(), a.as_ptr(), b.as_ptr());
                let (none, [ones, ms, ks]) = (Parallelism::None, [1, m as isize, k as isize]);
                // SAFETY: out (m x n) and b (k x n) lie column after column, a (m x k) row after row.
                unsafe {
                    multiply(
                        m, n, k, out, ms, ones, false, a, ones, ks, b, ks, ones, 0.0, 1.0, false,
                        false, false, none,
                    );
                }
            }
        });
    };
    products(repeats / 3); // as updates, after other threads had the cores
    let start = Instant::now();
    products(repeats);
    (repeats * 2 * m * n * k) as f64 / start.elapsed().as_secs_f64()
}

fn action_us(sac: &Sac, rng: &mut cmdp::Rng) -> f64 {
    const REPEATS: usize = 1000;
    let (obs, mut action, mut scratch) = ([0.1f32; OBS], [0.0; ACTIONS], Vec::new());
    cmdp::median((0..15).map(|_| {
        let start = Instant::now();
        for _ in 0..REPEATS {
            let noise: [f32; ACTIONS] = std::array::from_fn(|_| rng.sample(StandardNormal));
            let head = sac.actor().forward_one(std::hint::black_box(&obs), &mut scratch);
            gaussian::act(head, Some(&noise), &mut action);
            std::hint::black_box(&action);
        }
        1e6 * start.elapsed().as_secs_f64() / REPEATS as f64
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_update_takes_1_15_gflop() {
        let flops = flops_per_update(&SacConfig::default(), OBS, ACTIONS);
        assert!((flops / 1e9 - 1.15).abs() < 0.005, "{flops}");
    }
}
