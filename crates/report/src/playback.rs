//! An episode to watch: one page with the robot in 3-D, and what it earns, spends and does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::figure::escape;

/// A recorded episode.
#[derive(Debug, Clone, Serialize)]
pub struct Playback<S> {
    /// What is shown.
    pub title: String,
    /// The shapes, each with `kind`, `size` and `colour`.
    pub shapes: Vec<S>,
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

impl<S: Serialize> Playback<S> {
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
