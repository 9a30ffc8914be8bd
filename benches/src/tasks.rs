//! How fast the robots step, beside the physics alone.
//!
//! Random actions are played once and recorded. The recorded episodes are then played in turn
//! through the robot and as a bare loop of `mj_step` that does exactly the same physics, episode by
//! episode, so that a change in the machine's speed hits both alike; and by one robot on each of
//! several threads, against one alone.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mujoco_rs::prelude::{MjData, MjModel};
use rand::RngExt as _;
use robots::{AnyTask, Bare, Body, RobotError};

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bench {
    /// Threads of the parallel measurement.
    pub threads: usize,
    /// How long each of the measurements of a round takes.
    pub duration: Duration,
    /// Rounds; figures are medians over them.
    pub rounds: usize,
}

/// What one task reached; speeds are environment steps a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Through the robot, one thread.
    pub one_thread: f64,
    /// The bare physics, one thread.
    pub bare: f64,
    /// Speed through the robot over that of the bare physics: 1 means no overhead.
    pub of_bare: f64,
    /// Through robots, all threads together.
    pub all_threads: f64,
    /// All threads over one.
    pub speedup: f64,
}

/// A recorded episode.
struct Script {
    qpos: Vec<f64>,
    qvel: Vec<f64>,
    actions: Vec<f32>,
}

impl Bench {
    /// Measures one task.
    pub fn run(&self, task: &AnyTask) -> Result<Row, RobotError> {
        let scripts = record(task, RECORDED)?;
        let mut robots = (0..self.threads)
            .map(|_| task.robot(task.default_constraints()))
            .collect::<Result<Vec<_>, _>>()?;
        let bare = robots[0].bare();
        let mut data = MjData::new(bare.model.clone());
        let rounds: Vec<[f64; 5]> = (0..self.rounds)
            .map(|_| {
                let (through, bare) = self.beside_bare(&bare, &mut *robots[0], &mut data, &scripts);
                let one = self.throughput(&mut robots[..1], &scripts);
                let all = self.throughput(&mut robots, &scripts);
                [through, bare, through / bare, all, all / one]
            })
            .collect();
        let [one_thread, bare, of_bare, all_threads, speedup] =
            std::array::from_fn(|i| cmdp::median(rounds.iter().map(|round| round[i])));
        Ok(Row { one_thread, bare, of_bare, all_threads, speedup })
    }

    /// Steps a second through a robot and of the bare physics, one episode each in turn.
    fn beside_bare(
        &self,
        engine: &Bare,
        robot: &mut dyn Body,
        data: &mut MjData<Arc<MjModel>>,
        scripts: &[Script],
    ) -> (f64, f64) {
        let (mut steps, mut through, mut bare) = (0, 0.0, 0.0);
        for script in scripts.iter().cycle() {
            through += seconds(|| play(robot, script));
            bare += seconds(|| play_bare(data, engine, script));
            steps += script.actions.len() / engine.controls.len();
            if through + bare > self.duration.as_secs_f64() {
                break;
            }
        }
        (steps as f64 / through, steps as f64 / bare)
    }

    /// Steps a second of all robots together, each on a thread of its own until time is up.
    fn throughput(&self, robots: &mut [Box<dyn Body>], scripts: &[Script]) -> f64 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let threads = robots.iter_mut().map(|robot| {
                scope.spawn(move || {
                    let mut steps = 0;
                    for script in scripts.iter().cycle() {
                        play(&mut **robot, script);
                        steps += script.actions.len() / robot.spec().action;
                        if start.elapsed() > self.duration {
                            break;
                        }
                    }
                    steps as f64 / start.elapsed().as_secs_f64()
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().expect("a robot never panics")).sum()
        })
    }
}

/// Steps in all recorded episodes together; none is longer than 200, so that turns are short.
const RECORDED: usize = 2000;

/// Plays random actions, episode after episode.
fn record(task: &AnyTask, steps: usize) -> Result<Vec<Script>, RobotError> {
    let mut robot = task.robot(task.default_constraints())?;
    let mut rng = cmdp::rng([0; 4]);
    let [_, actions, _] = task.sizes();
    let (mut obs, mut costs) = room(&*robot);
    let mut action = vec![0.0; actions];
    let mut scripts: Vec<Script> = Vec::new();
    let mut over = true;
    for _ in 0..steps {
        if over || scripts.last().is_some_and(|s| s.actions.len() >= 200 * actions) {
            robot.reset(&mut rng, &mut obs);
            let (qpos, qvel) = robot.state();
            scripts.push(Script { qpos: qpos.to_vec(), qvel: qvel.to_vec(), actions: vec![] });
        }
        action.fill_with(|| rng.random_range(-1.0..1.0));
        over = robot.step(&action, &mut obs, &mut costs).is_last();
        scripts.last_mut().expect("an episode was begun").actions.extend(&action);
    }
    Ok(scripts)
}

/// Room for an observation, and for the costs of a step.
fn room(robot: &dyn Body) -> (Vec<f64>, Vec<f64>) {
    (vec![0.0; robot.spec().observation], vec![0.0; robot.spec().constraints.len()])
}

fn play(robot: &mut dyn Body, script: &Script) {
    let (mut obs, mut costs) = room(robot);
    robot.start(&script.qpos, &script.qvel, &mut obs).expect("recorded from this task");
    for action in script.actions.chunks_exact(robot.spec().action) {
        black_box(robot.step(action, &mut obs, &mut costs));
    }
}

/// The same physics and nothing else.
fn play_bare(data: &mut MjData<Arc<MjModel>>, engine: &Bare, script: &Script) {
    data.reset();
    data.qpos_mut().copy_from_slice(&script.qpos);
    data.qvel_mut().copy_from_slice(&script.qvel);
    data.forward();
    for action in script.actions.chunks_exact(engine.controls.len()) {
        for ((actuator, half, middle), &a) in engine.controls.iter().zip(action) {
            data.ctrl_mut()[*actuator] = middle + half * f64::from(a);
        }
        for _ in 0..engine.frame_skip {
            data.step();
        }
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use robots::TASKS;

    #[test]
    fn the_bare_loop_does_the_same_physics() {
        let balancer = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/robots/balancer.toml");
        for name in TASKS.iter().map(|task| task.name).chain([balancer]) {
            let task = AnyTask::find(name).unwrap();
            let scripts = record(&task, 150).unwrap();
            let steps = scripts.iter().map(|script| script.actions.len()).sum::<usize>();
            assert_eq!(steps, 150 * task.sizes()[1]);
            let last = scripts.last().unwrap();
            let mut robot = task.robot(task.default_constraints()).unwrap();
            play(&mut *robot, last);
            if name == balancer {
                continue; // whose weight and friction are not the model's own
            }
            let engine = robot.bare();
            let mut data = MjData::new(engine.model.clone());
            play_bare(&mut data, &engine, last);
            assert_eq!(robot.state(), (data.qpos(), data.qvel()), "{name}");
        }
    }

    #[test]
    fn every_figure_is_measured() {
        let bench = Bench { threads: 2, duration: Duration::from_millis(1), rounds: 2 };
        let row = bench.run(&AnyTask::BuiltIn(&TASKS[3])).unwrap();
        for figure in [row.one_thread, row.bare, row.of_bare, row.all_threads, row.speedup] {
            assert!(figure.is_finite() && figure > 0.0, "{row:?}");
        }
    }
}
