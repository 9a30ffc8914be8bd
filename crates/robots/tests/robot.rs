//! What a robot promises beyond its physics: random starts, exact restore, and no surprises when
//! the simulation breaks down.

use cmdp::{Constraint, Env, StateError, Step};
use rand::RngExt as _;
use robots::{COSTS, MAX_STEPS, Robot, TASKS, Task};

fn robot(task: &'static Task) -> Robot {
    let texts = ["torque<=0.4", "velocity<=25"];
    Robot::new(task, Constraint::parse_all(&texts, &COSTS).unwrap()).unwrap()
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Mean, standard deviation and largest magnitude.
fn moments(x: &[f64]) -> (f64, f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    (mean, variance.sqrt(), x.iter().fold(0.0, |max: f64, x| max.max(x.abs())))
}

#[test]
fn resets_are_uniform_or_normal_with_the_tasks_scale() {
    // From the table of v4 facts, not from the code: scale, whether velocities are normal.
    for (name, scale, normal) in [
        ("ant", 0.1, true),
        ("half-cheetah", 0.1, true),
        ("walker2d", 5e-3, false),
        ("hopper", 5e-3, false),
        ("swimmer", 0.1, false),
    ] {
        let mut robot = robot(Task::find(name).unwrap());
        let mut obs = vec![0.0; robot.spec().observation];
        let rest: Vec<f64> = robot.state().0.to_vec();
        let mut rng = cmdp::rng([1, 2, 3, 4]);
        let (mut positions, mut velocities) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            robot.reset(&mut rng, &mut obs);
            let (qpos, qvel) = robot.state();
            positions.extend(qpos.iter().zip(&rest).map(|(q, rest)| q - rest));
            velocities.extend_from_slice(qvel);
        }
        // Ten thousand draws or more: the mean is within 4 standard errors of 0, the deviation
        // within 3 %. A uniform number has deviation scale/√3 and never passes the scale.
        let uniform = |numbers: &[f64], what: &str| {
            let (mean, deviation, max) = moments(numbers);
            let expected = scale / 3f64.sqrt();
            assert!(mean.abs() < 0.04 * expected, "{name} {what}: mean {mean}");
            assert!((deviation / expected - 1.0).abs() < 0.03, "{name} {what}: {deviation}");
            assert!(max <= scale && max > 0.99 * scale, "{name} {what}: max {max}");
        };
        uniform(&positions, "qpos");
        if normal {
            let (mean, deviation, max) = moments(&velocities);
            assert!(mean.abs() < 0.04 * scale, "{name}: mean {mean}");
            assert!((deviation / scale - 1.0).abs() < 0.03, "{name}: {deviation}");
            assert!(max > 3.0 * scale, "{name}: max {max}");
            let within = velocities.iter().filter(|v| v.abs() < scale).count() as f64;
            assert!((within / velocities.len() as f64 - 0.6827).abs() < 0.01, "{name}");
        } else {
            uniform(&velocities, "qvel");
        }
    }
}

/// Steps with random actions; what came out, to the bit.
fn run(robot: &mut Robot, steps: usize, seed: u64) -> Vec<(Vec<u64>, u64, Vec<u64>, Step)> {
    let mut rng = cmdp::rng([seed, 0, 0, 0]);
    let mut obs = vec![0.0; robot.spec().observation];
    let mut costs = vec![0.0; robot.spec().constraints.len()];
    let mut action = vec![0.0; robot.spec().action];
    (0..steps)
        .map(|_| {
            action.fill_with(|| rng.random_range(-1.2..1.2));
            let step = robot.step(&action, &mut obs, &mut costs);
            (bits(&obs), step.reward.to_bits(), bits(&costs), step)
        })
        .collect()
}

#[test]
fn a_restored_robot_repeats_the_same_steps() {
    for task in &TASKS {
        let mut robot = robot(task);
        let mut obs = vec![0.0; task.observation];
        // At the start, in the middle, far past termination, and across the time limit.
        for played in [0, 1, 7, 60, 400, MAX_STEPS - 25] {
            robot.reset(&mut cmdp::rng([played as u64, 0, 0, 0]), &mut obs);
            let seen = run(&mut robot, played, 5).pop().map(|last| last.0);
            let state = robot.capture().unwrap();
            let first = run(&mut robot, 50, 6);
            // Into the same robot, whose physics has gone on, and into a new one.
            let mut other = self::robot(task);
            for robot in [&mut robot, &mut other] {
                robot.restore(&state, &mut obs).unwrap();
                if let Some(seen) = &seen {
                    assert_eq!(&bits(&obs), seen, "{} after {played}", task.name);
                }
                assert_eq!(run(robot, 50, 6), first, "{} after {played}", task.name);
            }
        }
    }
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut hopper = robot(Task::find("hopper").unwrap());
    let mut obs = [0.0; 11];
    hopper.reset(&mut cmdp::rng([0; 4]), &mut obs);
    let state = hopper.capture().unwrap();
    let mut broken = state.clone();
    broken[5] = f64::NAN;
    let expected = "state[5] is NaN; hopper expects a finite number";
    assert_eq!(hopper.restore(&broken, &mut obs).unwrap_err().to_string(), expected);
    let short = hopper.restore(&state[1..], &mut obs).unwrap_err();
    assert!(matches!(short, StateError::Length { what: "state", .. }));
    let wrong = hopper.start(&[0.0; 5], &[0.0; 6], &mut obs).unwrap_err().to_string();
    assert_eq!(wrong, "qpos has 5 numbers; hopper expects 6");
    assert_eq!(bits(&hopper.capture().unwrap()), bits(&state));
}

#[test]
fn the_time_limit_truncates_without_terminating() {
    let mut swimmer = robot(Task::find("swimmer").unwrap());
    swimmer.reset(&mut cmdp::rng([0; 4]), &mut [0.0; 8]);
    let steps = run(&mut swimmer, MAX_STEPS, 1);
    let truncated: Vec<usize> = (0..MAX_STEPS).filter(|&t| steps[t].3.truncated).collect();
    assert_eq!(truncated, [MAX_STEPS - 1]);
    assert!(steps.iter().all(|step| !step.3.terminated));
}

#[test]
fn torque_is_the_mean_of_the_applied_actions() {
    let mut hopper = robot(Task::find("hopper").unwrap());
    let (mut obs, mut costs) = ([0.0; 11], [0.0; 2]);
    hopper.reset(&mut cmdp::rng([0; 4]), &mut obs);
    hopper.step(&[0.5, -0.25, 7.0], &mut obs, &mut costs);
    assert_eq!(costs[0], (0.5 + 0.25 + 1.0) / 3.0);
}

#[test]
fn constraints_choose_and_order_the_costs() {
    let hopper = Task::find("hopper").unwrap();
    for (texts, expected) in [
        (vec![], vec![]),
        (vec!["velocity<=25", "torque<=0.4"], vec![0.0, 1.0]),
        (vec!["torque<=1", "sum(torque)<=9", "velocity<=2"], vec![1.0, 1.0, 0.0]),
    ] {
        let constraints = Constraint::parse_all(&texts, &COSTS).unwrap();
        let mut robot = Robot::new(hopper, constraints).unwrap();
        let mut costs = vec![f64::NAN; texts.len()];
        robot.step(&[-1.0; 3], &mut [0.0; 11], &mut costs);
        assert_eq!(costs, expected, "{texts:?}");
    }
}

fn assert_undone(step: Step, obs: &[f64], before: &[f64], costs: &[f64], what: &str) {
    assert!(step.unstable && step.terminated, "{what}: {step:?}");
    assert_eq!(step.reward, 0.0, "{what}");
    assert_eq!(bits(obs), bits(before), "{what}");
    assert!(costs.iter().all(|c| c.is_finite()) && costs[1] == 1.0, "{what}: {costs:?}");
}

#[test]
fn a_broken_action_ends_the_episode_and_is_undone() {
    for task in &TASKS {
        // The engine warns of NaN. Anything else it clips, but the square of infinity and of 1e30
        // overflow the control cost.
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            let mut robot = robot(task);
            let (mut obs, mut costs) = (vec![0.0; task.observation], [f64::NAN; 2]);
            robot.reset(&mut cmdp::rng([3; 4]), &mut obs);
            run(&mut robot, 5, 1);
            let (state, what) = (robot.capture().unwrap(), format!("{} {broken}", task.name));
            let mut before = obs.clone();
            robot.restore(&state, &mut before).unwrap();
            let mut action = vec![0.5; task.action];
            action[0] = broken;
            let step = robot.step(&action, &mut obs, &mut costs);
            assert_undone(step, &obs, &before, &costs, &what);
            // The robot goes on from where it stood as if nothing had been.
            let on = run(&mut robot, 20, 2);
            assert!(on.iter().all(|step| !step.3.unstable), "{what}");
            robot.restore(&state, &mut obs).unwrap();
            assert_eq!(run(&mut robot, 20, 2), on, "{what}");
        }
    }
}

#[test]
fn a_state_the_engine_would_silently_reset_is_flagged() {
    for task in &TASKS {
        let mut robot = robot(task);
        let (mut obs, mut costs) = (vec![0.0; task.observation], [f64::NAN; 2]);
        let (qpos, qvel) = robot.state();
        let (qpos, mut qvel) = (qpos.to_vec(), qvel.to_vec());
        qvel[1] = 1e12;
        robot.start(&qpos, &qvel, &mut obs).unwrap();
        let before = obs.clone();
        let step = robot.step(&vec![0.0; task.action], &mut obs, &mut costs);
        assert_undone(step, &obs, &before, &costs, task.name);
    }
}

#[test]
fn nothing_is_written_to_the_working_directory() {
    let mut ant = robot(Task::find("ant").unwrap());
    let (mut obs, mut costs) = ([0.0; 27], [0.0; 2]);
    assert!(ant.step(&[f32::NAN; 8], &mut obs, &mut costs).unstable);
    assert!(!std::path::Path::new("MUJOCO_LOG.TXT").exists());
}

#[test]
fn robots_in_many_threads_share_a_model_and_agree() {
    let task = Task::find("ant").unwrap();
    let play = || {
        let mut robot = robot(task);
        robot.reset(&mut cmdp::rng([9; 4]), &mut [0.0; 27]);
        run(&mut robot, 200, 4)
    };
    let alone = play();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(play)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

#[test]
fn the_checker_finds_nothing_wrong_with_any_robot() {
    for task in &TASKS {
        let make = || -> Box<dyn Env> {
            let texts = ["torque<=0.4", "velocity<=25"];
            let constraints = Constraint::parse_all(&texts, &COSTS).unwrap();
            Box::new(Robot::new(task, constraints).unwrap())
        };
        let report = cmdp::check::check(make);
        assert_eq!(
            (report.problems.len(), report.warnings.len()),
            (0, 0),
            "{}: {report}",
            task.name
        );
    }
}
