//! An episode to watch: one page with the robot in 3-D, and what it earns, spends and does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cmdp::{Aggregate, Constraint, Episode, Shape, Visual};
use runs::policy::Policy;
use serde::Serialize;

use crate::figure::escape;

/// A recorded episode.
#[derive(Debug, Clone, Serialize)]
pub struct Playback {
    /// What is shown.
    pub title: String,
    /// The shapes, each with `kind`, `size` and `colour`.
    pub shapes: Vec<Shape>,
    /// Seconds between two frames.
    pub seconds: f64,
    /// The reward of every step.
    pub rewards: Vec<f64>,
    /// The constraints.
    pub constraints: Vec<Watched>,
    /// The action of every step, motor by motor.
    pub actions: Vec<Vec<f32>>,
    /// Of every frame, for every shape, position and rotation: one frame more than there are steps.
    #[serde(skip)]
    pub poses: Vec<f32>,
}

/// A constraint and what each step cost.
#[derive(Debug, Clone, Serialize)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// Whether the costs of an episode are averaged, or summed.
    pub mean: bool,
    /// ε
    pub threshold: f64,
    /// The cost of every step.
    pub costs: Vec<f64>,
}

/// Plays one episode with the mean action; `each` is called after every step. The policy must be one
/// of the environment's task.
pub fn record<V: Visual, E>(
    env: &mut V,
    policy: &Policy,
    key: [u64; 4],
    mut each: impl FnMut(&mut V, &Episode) -> Result<(), E>,
) -> Result<(Playback, Episode), E> {
    let spec = env.spec().clone();
    let mut episode = Episode::new(&spec.constraints);
    let mut obs = vec![0.0; spec.observation];
    let mut costs = vec![0.0; spec.constraints.len()];
    let watched = |c: &Constraint| Watched {
        name: c.name.clone(),
        mean: c.aggregate == Aggregate::Mean,
        threshold: c.threshold,
        costs: Vec::new(),
    };
    let about = &policy.about;
    let mut playback = Playback {
        title: format!(
            "{} on {}, after {} steps, with its mean action",
            about.algorithm, about.task, about.env_steps
        ),
        shapes: env.shapes(),
        seconds: env.seconds_per_step(),
        rewards: Vec::new(),
        constraints: spec.constraints.iter().map(watched).collect(),
        actions: Vec::new(),
        poses: Vec::new(),
    };
    env.reset(&mut cmdp::rng(key), &mut obs);
    playback.poses.extend(env.poses().iter().flatten());
    loop {
        let seen: Vec<f32> = obs.iter().map(|&x| x as f32).collect();
        let action = policy.act(&seen).expect("a policy of this task");
        let step = env.step(&action, &mut obs, &mut costs);
        episode.push(&step, &costs);
        playback.poses.extend(env.poses().iter().flatten());
        playback.rewards.push(step.reward);
        let each_cost = playback.constraints.iter_mut().zip(&costs);
        each_cost.for_each(|(watched, cost)| watched.costs.push(*cost));
        playback.actions.push(action);
        each(env, &episode)?;
        if step.is_last() {
            return Ok((playback, episode));
        }
    }
}

impl Playback {
    /// The page.
    pub fn page(&self) -> String {
        let data = serde_json::to_string(self).expect("plain data").replace("</", "<\\/");
        let bytes: Vec<u8> = self.poses.iter().flat_map(|x| x.to_le_bytes()).collect();
        let poses = BASE64_STANDARD.encode(bytes);
        let title = escape(&self.title);
        let (css, js) = (include_str!("playback.css"), include_str!("playback.js"));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title><style>{css}</style></head><body>\
             <h1>{title}</h1><main><div id=\"stage\"><canvas id=\"scene\" tabindex=\"0\" \
             aria-label=\"the robot: drag to look around, scroll to come nearer\"></canvas>\
             <div class=\"controls\"><button id=\"play\" aria-label=\"play or pause\">pause</button>\
             <input id=\"time\" type=\"range\" min=\"0\" value=\"0\" aria-label=\"step\">\
             <output id=\"clock\"></output><label>speed <select id=\"speed\">\
             <option>0.25</option><option>0.5</option><option selected>1</option><option>2</option>\
             <option>4</option></select></label></div></div><div id=\"charts\"></div></main>\
             <script type=\"application/json\" id=\"data\">{data}</script>\
             <script type=\"text/plain\" id=\"poses\">{poses}</script><script>{js}</script>\
             </body></html>\n"
        )
    }
}
