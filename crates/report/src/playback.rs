//! An episode to watch: one page with the robot in 3-D, and what it earns, spends and does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cmdp::{Aggregate, Constraint, Episode, Mesh, Shape, Step, Visual};
use runs::policy::Policy;
use serde::Serialize;

use crate::figure::escape;
use crate::picture::View;
use crate::triangles::Triangles;

/// A recorded episode.
#[derive(Debug, Clone, Serialize)]
pub struct Playback {
    /// Whose it is.
    pub title: String,
    /// The shapes, each with `kind`, `size` and `colour`.
    pub shapes: Vec<Shape>,
    /// The meshes that shapes name.
    pub meshes: Vec<Mesh>,
    /// Where it is looked at from.
    pub view: View,
    /// Seconds between two frames.
    pub seconds: f64,
    /// The reward of every step.
    pub rewards: Vec<f64>,
    /// The constraints.
    pub constraints: Vec<Watched>,
    /// The action of every step, motor by motor.
    pub actions: Vec<Vec<f32>>,
    /// What each motor moves.
    pub action_names: Vec<String>,
    /// What actions are measured in.
    pub action_unit: String,
    /// Why it ended before the time limit, if it did: it fell, or the simulation broke down.
    pub ended: Option<String>,
    /// Of every frame, for every shape, position and rotation: one frame more than there are steps.
    #[serde(skip)]
    pub poses: Vec<[f32; 12]>,
    /// What all of it comes to.
    #[serde(skip)]
    pub episode: Episode,
}

/// A constraint and what each step cost.
#[derive(Debug, Clone, Serialize)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// What a cost is measured in.
    pub unit: String,
    /// Whether the costs of an episode are averaged, or summed.
    pub mean: bool,
    /// ε
    pub threshold: f64,
    /// The cost of every step.
    pub costs: Vec<f64>,
}

/// Plays one episode with the mean action. The policy must be one of the environment's task.
pub fn record<V: Visual + ?Sized>(env: &mut V, policy: &Policy, key: [u64; 4]) -> Playback {
    let spec = env.spec().clone();
    let mut obs = vec![0.0; spec.observation];
    let mut costs = vec![0.0; spec.constraints.len()];
    let watched = |c: &Constraint| Watched {
        name: c.name.clone(),
        unit: env.cost_unit(&c.name),
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
        meshes: env.meshes(),
        view: View::USUAL,
        seconds: env.seconds_per_step(),
        rewards: Vec::new(),
        constraints: spec.constraints.iter().map(watched).collect(),
        actions: Vec::new(),
        action_names: env.action_names(),
        action_unit: env.action_unit(),
        ended: None,
        poses: Vec::new(),
        episode: Episode::new(&spec.constraints),
    };
    env.reset(&mut cmdp::rng(key), &mut obs);
    playback.poses.extend(env.poses());
    let meshes: Vec<Triangles> = playback.meshes.iter().map(Triangles::new).collect();
    playback.view = View::of(&playback.shapes, &meshes, &playback.poses);
    loop {
        let seen: Vec<f32> = obs.iter().map(|&x| x as f32).collect();
        let action = policy.act(&seen).expect("a policy of this task");
        let step = env.step(&action, &mut obs, &mut costs);
        let ended = match (step.unstable, step.terminated) {
            (true, _) => Some("the simulation broke down".into()),
            (_, true) => Some(env.why_ended()),
            _ => None,
        };
        playback.push(&step, action, &costs, ended);
        playback.poses.extend(env.poses());
        if step.is_last() {
            return playback;
        }
    }
}

/// Which of some episodes is typical: the first of those with the median return; of an even number
/// of returns, the lower of the two in the middle.
pub fn typical(returns: &[f64]) -> usize {
    let mut sorted = returns.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[(sorted.len() - 1) / 2];
    returns.iter().position(|x| x.total_cmp(&median).is_eq()).expect("it is one of them")
}

impl Playback {
    fn push(&mut self, step: &Step, action: Vec<f32>, costs: &[f64], ended: Option<String>) {
        self.episode.push(step, costs);
        self.rewards.push(step.reward);
        let each_cost = self.constraints.iter_mut().zip(costs);
        each_cost.for_each(|(watched, cost)| watched.costs.push(*cost));
        self.actions.push(action);
        self.ended = ended;
    }

    /// Where every shape is after so many steps.
    pub fn frame(&self, step: usize) -> &[[f32; 12]] {
        &self.poses[step * self.shapes.len()..][..self.shapes.len()]
    }

    /// Its return, length and end, and every J_C against its bound.
    pub fn told(&self) -> String {
        let (reward, steps) = (self.episode.reward(), self.episode.steps());
        let seconds = steps as f64 * self.seconds;
        let mut told = format!("reward {reward:.1} in {steps} steps ({seconds:.2} s)");
        for (watched, value) in self.constraints.iter().zip(self.episode.constraint_values()) {
            told += ", ";
            told += &watched.told(value);
        }
        if let Some(ended) = &self.ended {
            told += &format!(", {ended} at {seconds:.2} s");
        }
        told
    }

    /// The page; `chosen` says which episode it is.
    pub fn page(&self, chosen: &str) -> String {
        let data = serde_json::to_string(self).expect("plain data").replace("</", "<\\/");
        let bytes: Vec<u8> = self.poses.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let poses = BASE64_STANDARD.encode(bytes);
        let title = escape(&self.title);
        let told = escape(&format!("{chosen}: {}", self.told()));
        let css = include_str!("playback.css");
        let js = concat!(
            include_str!("plot.js"),
            include_str!("scene.js"),
            include_str!("charts.js"),
            include_str!("playback.js")
        );
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"generator\" content=\"ecrl\"><title>{title}</title><style>{css}</style></head><body>\
             <h1>{title}</h1><p id=\"told\">{told}</p>\
             <main><div id=\"stage\"><canvas id=\"scene\" tabindex=\"0\" aria-label=\"the robot\" \
             aria-describedby=\"help\"></canvas>\
             <div class=\"controls\"><button id=\"play\" aria-label=\"play or pause\">pause</button>\
             <span id=\"line\"><input id=\"time\" type=\"range\" min=\"0\" value=\"0\" \
             aria-label=\"step\"></span>\
             <output id=\"clock\"></output><label>speed <select id=\"speed\">\
             <option>0.25</option><option>0.5</option><option selected>1</option><option>2</option>\
             <option>4</option></select></label></div>\
             <p id=\"help\"><span><b>drag</b> look around</span> <span><b>scroll, pinch</b> \
             nearer</span> <span><b>double click</b> reset</span> <span><b>space</b> play</span> \
             <span><b>← →</b> one step</span> <span><b>click a chart</b> go there</span></p></div><div id=\"charts\"></div></main>\
             <script type=\"application/json\" id=\"data\">{data}</script>\
             <script type=\"text/plain\" id=\"poses\">{poses}</script><script>{js}</script>\
             </body></html>\n"
        )
    }
}

impl Watched {
    /// A value J_C against its bound.
    pub fn told(&self, value: f64) -> String {
        let Self { name, threshold, .. } = self;
        let (word, sign) =
            (if self.mean { "mean" } else { "sum" }, if value <= *threshold { "≤" } else { ">" });
        format!("{word} {name} {value:.3} {sign} {threshold}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_episode_is_the_first_of_the_median_return() {
        assert_eq!(typical(&[7.0]), 0);
        assert_eq!(typical(&[3.0, 9.0, 5.0]), 2);
        assert_eq!(typical(&[5.0, 1.0, 5.0, 5.0, 9.0]), 0);
        assert_eq!(typical(&[4.0, 1.0, 3.0, 2.0]), 3);
    }
}
