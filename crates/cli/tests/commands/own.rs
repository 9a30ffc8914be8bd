//! Tasks of a user's own, through the command.

use std::fs;

use serde_json::Value;

use crate::common::*;

const MODEL: &str = "<mujoco model='cart'>\n<worldbody>\n<body name='cart'>\n\
    <joint name='x' type='slide' axis='1 0 0' damping='0.5'/>\n<geom name='box' type='box' size='.1 .1 .1' mass='1'/>\n\
    <site name='tip' pos='.1 0 0'/>\n</body>\n</worldbody>\n\
    <actuator><motor name='push' joint='x' ctrlrange='-3 3' ctrllimited='true'/></actuator>\n\
    <sensor><velocimeter name='speed' site='tip'/></sensor>\n</mujoco>\n";

const TASK: &str = r#"model = "cart.xml"
frame_skip = 5
steps = 40
observe = ["qpos", "qvel"]

[start.noise]
qpos = 0.2

[random]
body.cart.mass = { scale = [0.5, 2] }

[reward]
near = "-abs(pos.cart.x - 1)"
calm = { value = "-sum(action^2)", weight = 0.01 }

[costs.force]
value = "abs(force.push)"
threshold = 1.5

[end]
lost = "abs(qpos.x) > 5"
"#;

/// A folder with the cart.
fn cart(test: &str) -> Folder {
    let folder = Folder::new(&format!("own-{test}"));
    fs::write(folder.path("cart.xml"), MODEL).unwrap();
    fs::write(folder.path("cart.toml"), TASK).unwrap();
    folder
}

fn run(args: &[&str]) -> String {
    let output = ecrl(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    stdout(&output).to_owned()
}

fn errors(args: &[&str]) -> String {
    String::from_utf8(ecrl(args).stderr).unwrap()
}

#[test]
fn a_task_of_ones_own_does_all_that_a_robot_does() {
    let folder = cart("all");
    let (task, out) = (folder.path("cart.toml"), folder.path("run"));
    let short =
        ["--algo", "ppo-lag", "--set", "hidden=[8]", "--set", "collect=512", "--threads", "2"];
    let quiet = |args: &[&str]| run(&[args, &short, &["--quiet"]].concat());
    quiet(&["train", &task, "--steps", "4k", "--out", &out]);
    let config = fs::read_to_string(folder.path("run/config.toml")).unwrap();
    assert!(
        config.contains("task = \"cart\"") && config.contains("[\"mean(force)<=1.5\"]"),
        "{config}"
    );
    // The same values from its configuration, with its own copy; and another folder's file is the same task.
    let moved = folder.path("moved");
    fs::create_dir(&moved).unwrap();
    for name in ["cart.toml", "cart.xml"] {
        fs::copy(folder.path(name), format!("{moved}/{name}")).unwrap();
    }
    let (again, other) = (folder.path("again"), folder.path("other"));
    run(&["train", "--config", &format!("{out}/config.toml"), "--out", &again, "--quiet"]);
    quiet(&["train", &format!("{moved}/cart.toml"), "--steps", "4k", "--out", &other]);
    let files = |run: &str| -> Vec<Vec<u8>> {
        let names = ["config.toml", "policy.safetensors", "task.toml", "task.mjb"];
        names.iter().map(|name| fs::read(format!("{run}/{name}")).unwrap()).collect()
    };
    assert!(files(&again) == files(&out), "not the same run");
    assert!(files(&other) == files(&out), "not the same run in another folder");

    // Stopped and resumed it is the uninterrupted one, without its files.
    let halves = folder.path("halves");
    let often = ["--set", "test.share=1e9", "--set", "test.episodes=1", "--set", "test.every=0"];
    let whole = folder.path("whole");
    quiet(&[&["train", &task, "--steps", "4k", "--out", &whole], &often[..]].concat());
    let until = ["--until", "env_steps>=2000"];
    quiet(&[&["train", &task, "--steps", "4k", "--out", &halves], &often[..], &until].concat());
    let taken = || {
        let metrics = fs::read_to_string(format!("{halves}/metrics.jsonl")).unwrap();
        let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
        last["env_steps"].as_u64().unwrap()
    };
    assert!((2000..3000).contains(&taken()), "{}", taken());
    fs::rename(folder.path("cart.toml"), folder.path("kept.toml")).unwrap();
    fs::rename(folder.path("cart.xml"), folder.path("kept.xml")).unwrap();
    assert_eq!(errors(&["resume", &halves, "--set", "until=[]", "--quiet"]), "");
    assert!(taken() >= 4000 && files(&halves)[1] == files(&whole)[1], "resumed, it is another");

    let eval: Value =
        serde_json::from_str(&run(&["eval", &out, "--json", "--episodes", "3"])).unwrap();
    assert_eq!(eval["task"], "cart");
    let page = folder.path("a.html");
    assert!(run(&["play", &out, "--html", &page]).contains("mean force"));
    assert!(fs::read_to_string(&page).unwrap().contains("\"push\""));
    run(&["export", &out, "--format", "onnx", "--out", &folder.path("a.onnx")]);
    let report = folder.path("report");
    run(&["report", &out, &other, "--out", &report]);
    assert!(run(&["runs", &folder.path("")]).contains("cart"));

    // A policy by itself needs its task.
    let best = format!("{out}/best.safetensors");
    let expected = "its task, cart, is none of the built-in ones: expected --task with its file or a run of it";
    fails(&["eval", &best], 2, &format!("{best}: {expected}"));
    let moved = format!("{moved}/cart.toml");
    let alone = run(&["eval", &best, "--task", &moved, "--episodes", "3", "--json"]);
    let alone: Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(alone["mean_action"], eval["mean_action"]);
    let hopper = "is a policy of cart; expected --task with that, got hopper";
    fails(&["eval", &best, "--task", "hopper"], 2, &format!("{best} {hopper}"));

    // What was changed since is noticed, and does not matter.
    fs::rename(folder.path("kept.xml"), folder.path("cart.xml")).unwrap();
    fs::write(&task, TASK.replace("steps = 40", "steps = 50")).unwrap();
    let warned = errors(&["resume", &out, "--steps", "5k", "--quiet"]);
    let expected = format!(
        "warning: {task} has changed since the run began: the run goes on with its own copy\n"
    );
    assert!(warned.starts_with(&expected), "{warned}");
    fs::write(format!("{other}/task.toml"), TASK.replace("steps = 40", "steps = 50")).unwrap();
    let text =
        "its copy of the task, task.toml and task.mjb, is not the one that its config.toml names";
    fails(&["eval", &other], 2, &format!("{other}: {text}"));
    fs::remove_file(format!("{other}/task.mjb")).unwrap();
    fails(
        &["eval", &other],
        2,
        &format!("{other}/task.mjb is missing: expected the run's copy of its task"),
    );
}

#[test]
fn a_grid_takes_files_and_notices_that_one_has_changed() {
    let folder = cart("grid");
    let (task, grid, out) =
        (folder.path("cart.toml"), folder.path("grid.toml"), folder.path("runs"));
    let text = format!(
        "tasks = ['{task}']\nalgorithms = ['ppo-lag', 'ppo constraints=[]']\nseeds = 1\nsteps = 1e3\n\
         set = ['hidden=[8]', 'collect=512']"
    );
    fs::write(&grid, text).unwrap();
    run(&["grid", &grid, "--out", &out]);
    let made = ["calls", "cart-ppo-lag-0", "cart-ppo_constraints=[]-0", "logs"];
    assert_eq!(folder.list("runs"), made);
    run(&["grid", &grid, "--out", &out]);
    fs::write(&task, TASK.replace("steps = 40", "steps = 50")).unwrap();
    let output = ecrl(&["grid", &grid, "--out", &out]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("environment is"), "{told}");
}

#[test]
fn a_file_to_begin_with_is_written_and_trains() {
    let folder = cart("new");
    let (model, out) = (folder.path("cart.xml"), folder.path("new.toml"));
    let told = run(&["tasks", "new", &model, "--out", &out]);
    assert!(told.contains(&format!("ecrl tasks check {out}")), "{told}");
    let text = fs::read_to_string(&out).unwrap();
    for expected in [
        "model = \"cart.xml\"",
        "qpos.x  (slide)",
        "action.push  (-1 to 1 become -3 to 3)",
        "sensor.speed  (3 numbers)",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let checked = run(&["tasks", "check", &out, "--episodes", "4"]);
    assert!(
        checked.contains("new: observation 5, action 1, at most 1000 steps of 0.02 s"),
        "{checked}"
    );
    run(&[
        "train",
        &out,
        "--algo",
        "ppo",
        "--steps",
        "3k",
        "--quiet",
        "--out",
        &folder.path("run"),
    ]);
    // Nothing of the user's is overwritten.
    fails(
        &["tasks", "new", &model, "--out", &out],
        2,
        &format!("{out}: File exists (os error 17)"),
    );
    fails(&["tasks", "new", "no.xml"], 2, "no.xml: there is no such file");
    fs::write(folder.path("bad.xml"), "<mujoco><worldbody><geom size='-1'/></worldbody></mujoco>")
        .unwrap();
    let told = errors(&["tasks", "new", &folder.path("bad.xml")]);
    assert!(told.contains("bad.xml: MuJoCo: ") && told.lines().count() == 1, "{told}");
    // A URDF has no motors: the task gives it some.
    let urdf = "<robot name='rod'><link name='base'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' \
        ixz='0' iyz='0'/></inertial></link><link name='rod'><inertial><origin xyz='0 0 .5'/><mass value='.5'/><inertia \
        ixx='.04' iyy='.04' izz='.01' ixy='0' ixz='0' iyz='0'/></inertial></link><joint name='hip' type='revolute'>\
        <parent link='base'/><child link='rod'/><axis xyz='0 1 0'/><limit lower='-3' upper='3' effort='5' velocity='8'/>\
        </joint></robot>";
    fs::write(folder.path("rod.urdf"), urdf).unwrap();
    run(&["tasks", "new", &folder.path("rod.urdf")]);
    let rod = folder.path("rod.toml");
    let text = fs::read_to_string(&rod).unwrap();
    assert!(text.contains("[motors]\nhip = 5\n"), "{text}");
    assert!(
        run(&["tasks", "check", &rod, "--episodes", "2"]).contains("rod: observation 2, action 1")
    );
    fs::write(&rod, text.replace("[\"qpos\", \"clip(qvel, -10, 10)\"]", "[\"force\"]")).unwrap();
    let told = run(&["tasks", "check", &rod, "--episodes", "2"]);
    let forces: Vec<f64> = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("force"))
        .unwrap()
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    assert!(forces[0] < -4.9 && forces[1] > 4.9 && forces[1] <= 5.0, "{told}");
    let (out, small) = (folder.path("rod"), ["--algo", "ppo", "--set", "hidden=[8]", "--quiet"]);
    run(&[&["train", &rod, "--steps", "3k", "--out", &out], &small[..]].concat());
    fs::remove_file(folder.path("rod.urdf")).unwrap();
    run(&["eval", &out, "--episodes", "1"]);
    fails(
        &["tasks", "check", &rod],
        2,
        &format!("{rod}:5:9: {}: there is no such file", folder.path("rod.urdf")),
    );
    // Every robot that is built in can be begun with.
    for robot in ["ant", "half_cheetah", "walker2d", "hopper", "swimmer"] {
        let model = format!("{}/../robots/models/{robot}.xml", env!("CARGO_MANIFEST_DIR"));
        let out = folder.path(&format!("{robot}.toml"));
        run(&["tasks", "new", &model, "--out", &out]);
        let text = fs::read_to_string(&out).unwrap();
        assert!(text.contains("speed = \"rate(pos.torso.x)\"") || robot == "swimmer", "{text}");
        fs::write(&out, format!("name = \"own-{robot}\"\n{text}")).unwrap();
        run(&["tasks", "check", &out, "--episodes", "2"]);
    }
}

#[test]
fn what_usually_goes_wrong_is_told() {
    let folder = cart("odd");
    let text = TASK
        .replace("[\"qpos\", \"qvel\"]", "[\"qpos\", \"pos.cart\"]")
        .replace("weight = 0.01", "weight = 1e-6")
        .replace(
            "threshold = 1.5",
            "threshold = 99\n[costs.never]\nvalue = \"time > 99\"\nthreshold = 0",
        );
    let file = folder.path("odd.toml");
    fs::write(&file, text).unwrap();
    let told = run(&["tasks", "check", &file]);
    for expected in [
        "warning: observe: 2 of 'pos.cart' never changes: it tells a policy nothing",
        "warning: reward: 'near' is 100.0 % of it all: the other terms hardly count",
        "warning: cost 'force': no random episode breaks its bound, 99",
        "warning: cost 'never' is always 0: no random episode comes near what it bounds",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    fs::write(&file, TASK.replace("-abs(pos.cart.x - 1)", "log(pos.cart.x)")).unwrap();
    let told = errors(&["tasks", "check", &file]);
    assert!(told.contains("the reward's term 'near' is NaN in step"), "{told}");
    let told = errors(&[
        "train",
        &file,
        "--algo",
        "ppo",
        "--steps",
        "2k",
        "--quiet",
        "--out",
        &folder.path("run"),
    ]);
    assert!(told.contains("odd failed: the reward's term 'near' is NaN in step"), "{told}");
}

#[test]
fn every_mistake_is_one_line_with_its_place() {
    let folder = cart("bad");
    let file = folder.path("bad.toml");
    for (old, new, expected) in [
        (
            "model = \"cart.xml\"\n",
            "",
            "1:1: the file has no 'model': expected the file of a MuJoCo model, MJCF or URDF",
        ),
        (
            "cart.xml",
            "crat.xml",
            &format!("1:9: {}: there is no such file", folder.path("crat.xml")),
        ),
        (
            "frame_skip = 5",
            "frame_skip = 0",
            "2:14: frame_skip is 0; expected a whole number from 1 to 100000",
        ),
        (
            "frame_skip = 5",
            "frame_skip = \"x\"",
            "2:14: frame_skip: expected a whole number from 1 to 100000, got a text",
        ),
        (
            "frame_skip = 5",
            "frame_skips = 5",
            "2:1: unknown key 'frame_skips': did you mean 'frame_skip'?",
        ),
        (
            "frame_skip = 5",
            "frame_skip = ",
            "2:14: string values must be quoted, expected literal string",
        ),
        (
            "\"qpos\", \"qvel\"",
            "",
            "1:1: the file has no 'observe': expected a list of expressions, as in [\"qpos\", \"qvel\"]",
        ),
        ("\"qvel\"", "\"qvl\"", "4:21: unknown name 'qvl': did you mean 'qvel'?"),
        ("\"qvel\"", "\"2 * sin(qvel.y)\"", "4:34: the model has no joint 'y': expected one of: x"),
        ("\"qvel\"", "7", "4:11: observe: expected a list of texts, got a list"),
        ("qpos = 0.2", "qpos = -0.2", "7:1: noise on qpos: expected 0 to 1e100"),
        (
            "qpos = 0.2",
            "qpso = 0.2",
            "7:1: noise on 'qpso'; expected qpos, qvel, or one joint's, as in qpos.knee",
        ),
        ("qpos = 0.2", "qpos.y = 0.2", "7:6: the model has no joint 'y': expected one of: x"),
        (
            "qpos = 0.2",
            "qpos = { nromal = 1 }",
            "7:10: the model has no joint 'nromal': expected one of: x",
        ),
        (
            "cart.mass",
            "cart.weight",
            "10:11: unknown parameter 'body.cart.weight': expected one of gravity, body.NAME.mass, \
            body.NAME.x, body.NAME.y, body.NAME.z, geom.NAME.friction, joint.NAME.damping, joint.NAME.stiffness, \
            joint.NAME.armature, joint.NAME.frictionloss, actuator.NAME.gear",
        ),
        ("cart.mass", "crat.mass", "10:11: the model has no body 'crat': did you mean 'cart'?"),
        (
            "[0.5, 2]",
            "[2, 0.5]",
            "10:28: random.body.cart.mass.scale: expected two numbers, as in [0.8, 1.2], the lower first",
        ),
        (
            "pos.cart.x",
            "pos.cart",
            "13:9: has 3 numbers; expected one, as sum(), mean(), norm() or [0] make of it",
        ),
        ("pos.cart.x", "pos.cart.w", "13:23: no 'w' here: pos.cart has x, y, z"),
        ("sum(action^2)", "sum(action^2", "14:32: expected ')', got the end"),
        (
            "weight = 0.01",
            "wieght = 0.01",
            "14:36: unknown key 'reward.calm.wieght': did you mean 'weight'?",
        ),
        (
            "force.push",
            "force.pull",
            "17:20: the model has no actuator 'pull': expected one of: push",
        ),
        (
            "threshold = 1.5",
            "",
            "16:8: [costs.force] has no 'threshold': expected the usual bound, a number",
        ),
        (
            "threshold = 1.5",
            "threshold = 1.5\naggregate = \"max\"",
            "19:13: unknown aggregate 'max': expected mean or sum",
        ),
        (
            "costs.force",
            "costs.'a b'",
            "16:8: a cost: 'a b' is no name: expected letters, digits, _ and -",
        ),
        ("[end]", "[ends]", "20:2: unknown key 'ends': did you mean 'end'?"),
        (
            "model =",
            "name = \"hopper\"\nmodel =",
            "1:8: the name 'hopper' is a built-in robot's: expected name = \"...\" of its own",
        ),
        ("[reward]", "[let]\nqpos = \"1\"\n[reward]", "13:1: the name 'qpos' is taken"),
        (
            "[reward]",
            "[let]\n\"a b\" = \"1\"\n[reward]",
            "13:1: 'a b' cannot be a name: expected letters, digits and _",
        ),
        (
            "[reward]",
            "[actions]\nactuators = [\"pull\"]\n[reward]",
            "13:14: the model has no actuator 'pull': expected one of: push",
        ),
        (
            "[start.noise]",
            "[start]\nkey = \"home\"\n[start.noise]",
            "7:7: the model has no key frame 'home': none of its key frames has a name",
        ),
    ] {
        assert!(TASK.contains(old), "{old}");
        fs::write(&file, TASK.replace(old, new)).unwrap();
        fails(&["tasks", "check", &file], 2, &format!("{file}:{expected}"));
    }
    fails(
        &["train", "no.toml"],
        2,
        "no.toml: cannot read it: No such file or directory (os error 2)",
    );
    fs::write(folder.path("cart.xml"), MODEL.replace("type='slide'", "type='silde'")).unwrap();
    let told = errors(&["train", &folder.path("cart.toml")]);
    assert!(
        told.starts_with(&format!(
            "error: {}:1:9: {}: MuJoCo: ",
            folder.path("cart.toml"),
            folder.path("cart.xml")
        )),
        "{told}"
    );
    assert!(told.contains("silde") || told.contains("type"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn what_is_the_user_s_stays_and_what_a_killed_run_left_is_no_hindrance() {
    let folder = cart("theirs");
    let (task, out, mine) =
        (folder.path("cart.toml"), folder.path("run"), folder.path("run/task.toml"));
    let short =
        ["--algo", "ppo", "--set", "hidden=[8]", "--steps", "600", "--quiet", "--out", &out];
    let train = |task: &str, more: &[&str]| ecrl(&[&["train", task], &short[..], more].concat());
    assert!(train("hopper", &[]).status.success());
    fs::write(&mine, "mine").unwrap();
    assert!(train("hopper", &["--force"]).status.success());
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    let told = String::from_utf8(train(&task, &["--force"]).stderr).unwrap();
    assert!(told.contains("task.toml is not a run's own: move it away"), "{told}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    // A run that is killed as it begins has written its copy and nothing else.
    fs::remove_dir_all(&out).unwrap();
    assert!(train(&task, &[]).status.success());
    for name in folder.list("run").iter().filter(|name| !name.starts_with("task.")) {
        let path = format!("{out}/{name}");
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    assert!(train(&task, &[]).status.success());
    assert!(train(&task, &["--force"]).status.success());
}

#[test]
fn two_tasks_of_one_name_are_told_apart() {
    let (one, other) = (cart("one"), cart("other"));
    fs::write(other.path("cart.toml"), TASK.replace("steps = 40", "steps = 50")).unwrap();
    let tasks = [one.path("cart.toml"), other.path("cart.toml")];
    let grid = one.path("grid.toml");
    fs::write(&grid, format!("tasks = {tasks:?}\nalgorithms = ['ppo']\nseeds = 1")).unwrap();
    let told = errors(&["grid", &grid, "--out", &one.path("runs")]);
    assert!(told.contains("two runs are called cart-ppo-0: environment is"), "{told}");
    let outs = [one.path("a"), one.path("b")];
    for (task, out) in tasks.iter().zip(&outs) {
        let short = ["--algo", "ppo", "--set", "hidden=[8]", "--steps", "600", "--quiet"];
        run(&[&["train", task, "--out", out], &short[..]].concat());
    }
    let report = one.path("report");
    run(&["report", &outs[0], &outs[1], "--out", &report]);
    let page = fs::read_to_string(format!("{report}/index.html")).unwrap();
    assert!(page.contains("cart (file 1)") && page.contains("cart (file 2)"), "in one panel");
    assert!(page.contains(&format!("ecrl train {}", tasks[0])), "not how to make it again");
}
