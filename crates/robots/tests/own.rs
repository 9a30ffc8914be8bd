//! Robots of task files: the five built-in ones, written as files, are themselves to the bit; what is random, is stored,
//! is wrong.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cmdp::{Constraint, Env as _, Visual as _};
use robots::own::{OwnRobot, OwnTask, check};
use robots::{AnyTask, COSTS, Robot, TASKS};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    episodes: Vec<Episode>,
}

#[derive(Deserialize)]
struct Episode {
    about: String,
    qpos: Vec<f64>,
    qvel: Vec<f64>,
    actions: Vec<Vec<f32>>,
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Recorded episodes are those that the built-in robots are compared with Gymnasium by.
#[test]
fn the_five_written_as_files_are_themselves_to_the_bit() {
    for task in &TASKS {
        let file = here(&format!("tests/tasks/{}.toml", task.name.replace('-', "_")));
        let own = OwnTask::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(own.sizes(), [task.observation, task.action, 1000], "{}", task.name);
        let constraints = Constraint::parse_all(&["torque<=0.4", "velocity<=25"], &COSTS).unwrap();
        let mut own = OwnRobot::new(&own, constraints.clone()).unwrap();
        let mut built_in = Robot::new(task, constraints).unwrap();
        let text = std::fs::read_to_string(here(&format!("tests/fixtures/{}.json", task.name)));
        let fixture: Fixture = serde_json::from_str(&text.unwrap()).unwrap();
        let mut seen = [vec![0.0; task.observation], vec![0.0; task.observation]];
        for episode in fixture.episodes {
            own.start(&episode.qpos, &episode.qvel, &mut seen[0]).unwrap();
            built_in.start(&episode.qpos, &episode.qvel, &mut seen[1]).unwrap();
            for (t, action) in episode.actions.iter().enumerate() {
                // An action beyond its range is clipped here, and squared as it is there.
                if action.iter().any(|a| a.abs() > 1.0) {
                    break;
                }
                let at = format!("{}: {}: step {t}", task.name, episode.about);
                let mut costs = [[f64::NAN; 2]; 2];
                let one = own.step(action, &mut seen[0], &mut costs[0]);
                let other = built_in.step(action, &mut seen[1], &mut costs[1]);
                assert_eq!(bits(&seen[0]), bits(&seen[1]), "{at}");
                assert_eq!(one, other, "{at}");
                assert_eq!(one.reward.to_bits(), other.reward.to_bits(), "{at}");
                assert_eq!(bits(&costs[0]), bits(&costs[1]), "{at}");
            }
        }
    }
}

fn example(name: &str) -> Arc<OwnTask> {
    let file = here(&format!("../../examples/robots/{name}.toml"));
    OwnTask::read(&file).unwrap_or_else(|error| panic!("{error}"))
}

/// Plays some steps from where it is; returns all that came of them.
fn play(robot: &mut OwnRobot, steps: usize) -> Vec<u64> {
    let mut obs = vec![0.0; robot.spec().observation];
    let mut costs = vec![0.0; robot.spec().constraints.len()];
    let mut all = Vec::new();
    for t in 0..steps {
        let action: Vec<f32> =
            (0..robot.spec().action).map(|i| ((t + 3 * i) as f32 * 0.3).sin() * 0.4).collect();
        let step = robot.step(&action, &mut obs, &mut costs);
        all.extend(bits(&obs));
        all.extend(bits(&costs));
        all.push(step.reward.to_bits());
    }
    all
}

#[test]
fn a_stored_state_goes_on_to_the_bit_in_another_robot_of_the_same_copy() {
    for name in ["arm", "balancer"] {
        let task = example(name);
        let (text, model) = task.copy();
        let copy = OwnTask::of_copy("task.toml", name, text.into(), &model).unwrap();
        assert_eq!(copy.copy().1, model, "a copy of a copy is the same");
        let new = |task| OwnRobot::new(task, task.default_constraints()).unwrap();
        let (mut one, mut other) = (new(&task), new(&copy));
        let mut obs = [vec![0.0; task.sizes()[0]], vec![0.0; task.sizes()[0]]];
        for episode in 0..3 {
            let rng = || cmdp::rng([7, 0, episode, 0]);
            one.reset(&mut rng(), &mut obs[0]);
            play(&mut one, 9);
            let state = one.capture().unwrap();
            other.restore(&state, &mut obs[1]).unwrap();
            assert_eq!(other.capture().unwrap(), state, "{name}");
            assert_eq!(play(&mut one, 9), play(&mut other, 9), "{name}");
        }
        // Before the first episode, too; and what does not fit is refused.
        let fresh = new(&task).capture().unwrap();
        other.restore(&fresh, &mut obs[1]).unwrap();
        assert!(other.restore(&fresh[1..], &mut obs[1]).is_err());
    }
}

#[test]
fn parameters_are_drawn_for_every_episode_and_change_what_happens() {
    let folder = std::env::temp_dir().join(format!("ecrl-own-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = "<mujoco><worldbody><body name='ball' pos='0 0 9'><joint name='up' type='slide' axis='0 0 1'/>\
        <geom size='0.1' mass='2'/></body></worldbody><actuator><motor name='lift' joint='up'/></actuator></mujoco>";
    std::fs::write(folder.join("ball.xml"), model).unwrap();
    let file = folder.join("ball.toml");
    let fall = |random: &str, seed: u64| {
        let text = format!(
            "model = 'ball.xml'\nframe_skip = 1\nobserve = ['qvel', 'pos.ball.z']\n[reward]\nlift = 'qvel.up'\n\
             [random]\n{random}"
        );
        std::fs::write(&file, text).unwrap();
        let mut robot = OwnRobot::new(&OwnTask::read(&file).unwrap(), vec![]).unwrap();
        let mut obs = [0.0; 2];
        robot.reset(&mut cmdp::rng([seed; 4]), &mut obs);
        let height = obs[1];
        let step = robot.step(&[1.0], &mut obs, &mut []);
        (step.reward, height)
    };
    // A force of 1 N on a mass of m, against gravity, for 2 ms: v = (1/m - g)·0.002.
    let speed = |mass: f64, gravity: f64| (1.0 / mass - gravity) * 0.002;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
    near(fall("", 0).0, speed(2.0, 9.81));
    near(fall("body.ball.mass = { scale = [3, 3] }", 0).0, speed(6.0, 9.81));
    near(fall("'body.*.mass' = { add = [-1, -1] }", 0).0, speed(1.0, 9.81));
    near(fall("gravity = { range = [-1, -1] }", 0).0, speed(2.0, 1.0));
    near(fall("actuator.lift.gear = { scale = [4, 4] }", 0).0, (4.0 / 2.0 - 9.81) * 0.002);
    near(fall("body.ball.z = { range = [3, 3] }", 0).1, 3.0);
    let drawn: Vec<f64> =
        (0..20).map(|seed| fall("body.ball.z = { add = [-1, 1] }", seed).1).collect();
    assert!(drawn.iter().all(|z| (8.0..=10.0).contains(z)));
    assert!(drawn.iter().any(|z| *z < 8.5) && drawn.iter().any(|z| *z > 9.5), "{drawn:?}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn examples_are_sound_tasks_with_meshes_and_ends_that_have_names() {
    for name in ["arm", "balancer"] {
        let task = example(name);
        let make = || OwnRobot::new(&task, task.default_constraints()).unwrap();
        let report = cmdp::check::check(|| Box::new(make()));
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
        let checked = check(&task, 6, 0).unwrap();
        assert_eq!(checked.played[2], 0, "{name}: broke down");
        assert!(checked.to_string().contains("steps/s on one thread"));
    }
    let task = example("balancer");
    let mut robot = OwnRobot::new(&task, vec![]).unwrap();
    let (meshes, shapes) = (robot.meshes(), robot.shapes());
    assert_eq!(meshes.len(), 1);
    assert!(meshes[0].vertices.len() > 50 && meshes[0].faces.len() > 100);
    assert_eq!(shapes.iter().filter(|shape| shape.mesh == Some(0)).count(), 1);
    assert_eq!(robot.poses().len(), shapes.len());
    assert_eq!(robot.action_names(), ["left", "right"]);
    let mut obs = vec![0.0; task.sizes()[0]];
    robot.reset(&mut cmdp::rng([0; 4]), &mut obs);
    let ended = (0..500).any(|_| robot.step(&[1.0, 1.0], &mut obs, &mut []).terminated);
    assert!(ended && robot.why_ended() == "ended by fallen", "{}", robot.why_ended());
}

#[test]
fn a_name_that_is_a_file_s_finds_the_task() {
    let file = here("../../examples/robots/arm.toml").display().to_string();
    let task = AnyTask::find(&file).unwrap();
    assert_eq!(task.name(), "arm");
    let robot = task.robot(task.default_constraints()).unwrap();
    assert_eq!(robot.spec().constraints.len(), 2);
}

/// A task of one ball on a slide, with more in its file.
fn ball(test: &str, model: &str, more: &str) -> Result<Arc<OwnTask>, String> {
    let folder = std::env::temp_dir().join(format!("ecrl-own-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = format!(
        "<mujoco>{model}<worldbody><body name='ball'><joint name='up' type='slide' axis='0 0 1'/><geom size='.1'/></body>\
         <body name='free' pos='1 0 0'><freejoint/><geom size='.1'/></body><body name='held' mocap='true'/></worldbody>\
         <actuator><motor joint='up'/></actuator></mujoco>"
    );
    std::fs::write(folder.join("ball.xml"), model).unwrap();
    let text = format!("model = 'ball.xml'\n{more}");
    std::fs::write(folder.join("ball.toml"), text).unwrap();
    let task = OwnTask::read(&folder.join("ball.toml"));
    std::fs::remove_dir_all(folder).unwrap();
    task.map_err(|error| error.to_string())
}

#[test]
fn however_much_is_remembered_an_episode_knows_nothing_of_the_one_before() {
    let lets: String = (1..14).map(|i| format!("v{i} = 'rate(v{}) + time'\n", i - 1)).collect();
    let more = format!(
        "observe = ['v13']\n[start.noise]\nqvel = 1\n[let]\nv0 = 'qpos.up'\n{lets}[reward]\na = 'v13'"
    );
    let task = ball("nested", "", &more).unwrap();
    let new = || OwnRobot::new(&task, vec![]).unwrap();
    let (mut one, mut other, mut obs) = (new(), new(), [0.0]);
    one.reset(&mut cmdp::rng([1; 4]), &mut obs);
    play(&mut one, 20);
    for robot in [&mut one, &mut other] {
        robot.reset(&mut cmdp::rng([2; 4]), &mut obs);
    }
    assert_eq!(play(&mut one, 5), play(&mut other, 5));
}

#[test]
fn what_cannot_be_stored_or_does_nothing_is_refused() {
    let rest = "observe = ['qpos']\n[reward]\na = '1'\n";
    for (model, more, expected) in [
        (
            "<option><flag sleep='enable'/></option>",
            "",
            "its bodies may sleep, which cannot be stored",
        ),
        ("", "[random]\nbody.free.x = { add = [0, 1] }", "'body.free.x' moves freely"),
        ("", "[random]\nbody.held.x = { add = [0, 1] }", "'body.held.x' moves freely"),
        ("", "[motors]\nup = 3\n[motors.x]\na = 1", "motors.x: expected its largest torque"),
        ("", "[start.noise]\nqpos = 1e308", "noise on qpos: expected 0 to 1e100"),
    ] {
        let error = ball("refused", model, &format!("{rest}{more}")).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    let long = format!("observe = ['{}1']\n[reward]\na = '1'", "1+".repeat(30_000));
    assert!(ball("long", "", &long).err().unwrap().contains("longer than 4000 letters"));
    // A number that is remembered and that nobody sees.
    let masked =
        "observe = ['qpos']\n[reward]\na = 'where(qpos.up > 9, before(log(qpos.up - 5)), 0)'";
    let mut robot = OwnRobot::new(&ball("masked", "", masked).unwrap(), vec![]).unwrap();
    robot.reset(&mut cmdp::rng([0; 4]), &mut [0.0; 8]);
    assert_eq!(robot.failure().unwrap(), "what before() or rate() is of is NaN in step 0");
}
