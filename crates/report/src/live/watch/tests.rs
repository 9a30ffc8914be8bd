use ecrl::config::Layers;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-watch-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn run(&self, name: &str, steps: u64) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        let mut layers = Layers::default();
        layers.set("task", "hopper").set("algorithm", "ipo").set("steps", steps as i64);
        layers.set("constraints", vec!["mean(torque)<=0.4".to_owned()]);
        fs::write(path.join("config.toml"), layers.build().unwrap().to_toml()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn line(step: u64, reward: f64) -> String {
    format!(
        "{{\"generation\":1,\"env_steps\":{step},\"learner_reward\":{reward},\"learner_cost\":[0.25],\
         \"sampled_reward\":1.0,\"sampled_cost\":[0.5],\"seconds\":2.0}}\n"
    )
}

fn append(run: &Path, text: &str) {
    use std::io::Write as _;
    let file = File::options().create(true).append(true).open(run.join(METRICS));
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn runs_come_grow_go_back_and_go() {
    let folder = Folder::new("story");
    let mut watch = Watch::new(vec![folder.0.clone()]);
    assert!(watch.refresh().rows.is_empty());
    let search = |watch: &mut Watch| {
        (watch.searched, watch.looked) = (None, None);
        watch.refresh()
    };
    let run = folder.run("a/b", 100);
    let news = search(&mut watch);
    assert_eq!(news.rows.len(), 1);
    let number = news.rows[0].0;
    assert_eq!((&news.rows[0].1["run"], &news.rows[0].1["steps"]), (&json!("a/b"), &json!(0)));
    assert!(search(&mut watch).rows.is_empty(), "nothing is new");
    // A line that is not whole yet counts later.
    let (first, second) = (line(10, 5.0), line(100, 7.5));
    append(&run, &(first + &second[..20]));
    assert_eq!(watch.refresh().rows[0].1["steps"], 10);
    append(&run, &second[20..]);
    let row = watch.refresh().rows.remove(0).1;
    assert_eq!(
        (&row["steps"], &row["state"], &row["reward"]),
        (&json!(100), &json!("finished"), &json!(7.5))
    );
    assert_eq!(
        (&row["spark"], &row["constraints"][0]["kept"]),
        (&json!([[10.0, 5.0], [100.0, 7.5]]), &json!(false))
    );
    // A resume that goes back writes the log anew.
    fs::write(run.join(METRICS), line(10, 5.0)).unwrap();
    let row = watch.refresh().rows.remove(0).1;
    assert_eq!((&row["steps"], &row["state"]), (&json!(10), &json!("stopped")));
    assert_eq!(row["spark"], json!([[10.0, 5.0]]));
    fs::write(run.join(FAILURE), "it fell over\n").unwrap();
    let row = search(&mut watch).rows.remove(0).1;
    assert_eq!((&row["state"], &row["reason"]), (&json!("failed"), &json!("it fell over")));
    // Links lead elsewhere.
    let hidden = Folder::new("hidden");
    hidden.run("c", 100);
    std::os::unix::fs::symlink(&hidden.0, folder.0.join("link")).unwrap();
    fs::remove_dir_all(folder.0.join("a")).unwrap();
    let news = search(&mut watch);
    assert_eq!((news.gone, news.rows.len()), (vec![number], 0));
    folder.run("a/b", 50);
    assert_eq!(search(&mut watch).rows[0].0, number + 1, "another run has another number");
}

#[test]
fn a_small_curve_stays_small() {
    let folder = Folder::new("spark");
    let run = folder.run("long", 1_000_000);
    append(&run, &(1..2000).map(|i| line(i, i as f64)).collect::<String>());
    let mut watch = Watch::new(vec![folder.0.clone()]);
    let spark = watch.refresh().rows[0].1["spark"].as_array().unwrap().len();
    assert!((SPARK..=2 * SPARK).contains(&spark), "{spark}");
}
