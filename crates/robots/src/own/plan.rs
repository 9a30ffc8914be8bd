//! What a task file says, taken apart and compiled for its model.

use std::sync::Arc;

use cmdp::{Aggregate, Cost};
use mujoco_rs::mujoco_c::mjtEnableBit as MjtEnableBit;
use mujoco_rs::prelude::MjModel;
use mujoco_rs::wrappers::mj_model::MjtObjBase;

use super::compile::Compiler;
use super::expression::{self, Node};
use super::file::{Entry, Mistake, Section, Text, mistake};
use super::program::{Program, Span};
use super::quantity::{self, Measured, object};
use super::random::{Change, Draw, Noise, Parameter};
use crate::task::Task;

/// What an action's entry is multiplied by, and what is added to it then.
pub type Scale = (f64, f64);

/// What a step computes, and with what an episode begins.
pub struct Plan {
    pub frame_skip: usize,
    pub steps: usize,
    pub actuators: Vec<usize>,
    pub scales: Vec<Scale>,
    /// The key frame an episode begins with.
    pub key: Option<usize>,
    pub noise: Vec<Noise>,
    pub parameters: Vec<Parameter>,
    pub program: Program<quantity::Source>,
    pub observation: Span,
    /// The expressions of the observation, with how many numbers each has.
    pub observed: Vec<(String, usize)>,
    pub rewards: Vec<Term>,
    pub costs: Vec<Cost>,
    pub cost_spans: Vec<Span>,
    pub ends: Vec<(String, Span)>,
}

/// A part of the reward.
pub struct Term {
    pub name: String,
    pub weight: f64,
    pub span: Span,
}

/// Noise beyond which nothing could be told from infinity.
const WIDEST_NOISE: f64 = 1e100;

/// Numbers of an observation at the most.
const WIDEST: usize = 100_000;

/// A motor that the task adds to a joint of its model: the joint's name, and the largest torque or force.
pub type Motor = (String, f64);

/// What a file comes to: the task's name, its description, its model, and the rest.
pub type Read = (String, String, Arc<MjModel>, Plan);

impl Plan {
    /// Takes a file apart; `stem` is the task's name where it has none of its own.
    pub fn read(
        text: &str,
        stem: &str,
        load: impl FnOnce(&str, &[Motor]) -> Result<MjModel, String>,
    ) -> Result<Read, Mistake> {
        let mut file = Section::file(text)?;
        let (name, name_at) = match file.text("name")? {
            Some(name) => (name.text, name.at),
            None => (stem.to_owned(), 0),
        };
        check_name("name", &name).map_err(|message| mistake(name_at, message))?;
        if Task::find(&name).is_ok() {
            let text = format!(
                "the name '{name}' is a built-in robot's: expected name = \"...\" of its own"
            );
            return Err(mistake(name_at, text));
        }
        let description = file.text("description")?.map_or(String::new(), |text| text.text);
        let path = file.text("model")?;
        let path =
            path.ok_or_else(|| file.missing("model", "the file of a MuJoCo model, MJCF or URDF"))?;
        let motors = Self::motors(file.section("motors")?)?;
        let model = load(&path.text, &motors).map_err(|error| path.refuse(error))?;
        let model = Arc::new(model);
        let ffi = model.ffi();
        if ffi.nu != ffi.nactuator || ffi.nout != ffi.nactuator {
            return Err(
                path.refuse("an actuator has several controls or forces; expected one of each")
            );
        }
        if model.opt().enableflags & MjtEnableBit::mjENBL_SLEEP as i32 != 0 {
            return Err(path.refuse(
                "its bodies may sleep, which cannot be stored: expected <flag sleep=\"disable\"/>",
            ));
        }
        let frame_skip = file.whole("frame_skip", 1..=100_000)?.unwrap_or(5);
        let steps = file.whole("steps", 1..=10_000_000)?.unwrap_or(1000);
        let moved = Self::actions(file.section("actions")?, &model)?;
        let (actuators, scales): (Vec<usize>, Vec<Scale>) = moved.into_iter().unzip();
        let mut start = file.section("start")?;
        let key = match start.text("key")? {
            None => None,
            Some(key) => {
                let found = object(&model, MjtObjBase::mjOBJ_KEY, "key frame", &key.text);
                Some(found.map_err(|error| key.refuse(error))?)
            }
        };
        let noise = start.section("noise")?.flat(&["uniform", "normal"]);
        let noise = noise.into_iter().map(|entry| Self::noise(entry, &model));
        let noise = noise.collect::<Result<Vec<_>, _>>()?;
        start.finish()?;
        let parameters = file.section("random")?.flat(&["scale", "add", "range", "normal"]);
        let parameters = parameters.into_iter().map(|entry| Self::parameter(entry, &model));
        let parameters = parameters.collect::<Result<Vec<_>, _>>()?;

        let measured = Measured { model: &model, actuators: &actuators, frame_skip };
        let mut compiler = Compiler::new(&measured);
        for entry in file.section("let")?.all() {
            let text = entry.as_text().ok_or_else(|| entry.refuse("an expression, as a text"))?;
            let named = entry.name.chars().all(|c| c.is_alphanumeric() || c == '_');
            let begins = entry.name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            if !(named && begins) || ["and", "or", "not", "pi", "dt"].contains(&&entry.name[..]) {
                let text =
                    format!("'{}' cannot be a name: expected letters, digits and _", entry.name);
                return Err(mistake(entry.at, text));
            }
            if compiler.knows(&entry.name) {
                return Err(mistake(entry.at, format!("the name '{}' is taken", entry.name)));
            }
            let span = compiler.value(&text.expression()?).map_err(|wrong| text.wrong(&wrong))?;
            compiler.name(&entry.name, span);
        }
        let observe = file.texts("observe")?.filter(|all| !all.is_empty());
        let observe = observe.ok_or_else(|| {
            file.missing("observe", "a list of expressions, as in [\"qpos\", \"qvel\"]")
        })?;
        let (mut nodes, mut observed) = (Vec::new(), Vec::new());
        for text in &observe {
            let node = text.expression()?;
            let span = compiler.value(&node).map_err(|wrong| text.wrong(&wrong))?;
            observed.push((text.text.clone(), span.len));
            nodes.push(node);
        }
        let joined = Node { kind: expression::Kind::List(nodes), at: 0 };
        let observation =
            compiler.value(&joined).map_err(|wrong| observe[0].refuse(wrong.message))?;
        if observation.len > WIDEST {
            let text =
                format!("observe has {} numbers; expected at most {WIDEST}", observation.len);
            return Err(observe[0].refuse(text));
        }
        let mut rewards = Vec::new();
        let reward = file.section("reward")?;
        if reward.is_empty() {
            return Err(file.missing("reward", "a section [reward] with an expression or more"));
        }
        for entry in reward.all() {
            rewards.push(Self::term(entry, &mut compiler)?);
        }
        let (mut costs, mut cost_spans) = (Vec::new(), Vec::new());
        for entry in file.section("costs")?.all() {
            let (cost, span) = Self::cost(entry, &mut compiler)?;
            costs.push(cost);
            cost_spans.push(span);
        }
        let mut ends = Vec::new();
        for entry in file.section("end")?.all() {
            let text = entry.as_text().ok_or_else(|| entry.refuse("an expression, as a text"))?;
            ends.push((entry.name, scalar(&text, &mut compiler)?));
        }
        file.finish()?;
        let program = compiler.finish();
        let plan = Self {
            frame_skip,
            steps,
            actuators,
            scales,
            key,
            noise,
            parameters,
            program,
            observation,
            observed,
            rewards,
            costs,
            cost_spans,
            ends,
        };
        Ok((name, description, model, plan))
    }

    fn motors(section: Section) -> Result<Vec<Motor>, Mistake> {
        let motor = |entry: Entry| match entry.as_number().filter(|most| *most > 0.0) {
            Some(most) => Ok((entry.name, most)),
            None => Err(mistake(
                entry.at,
                format!("motors.{}: expected its largest torque or force, above 0", entry.name),
            )),
        };
        section.all().into_iter().map(motor).collect()
    }

    /// The actuators that a policy moves, and the scale of each.
    fn actions(mut section: Section, model: &MjModel) -> Result<Vec<(usize, Scale)>, Mistake> {
        let mut actuators = Vec::new();
        match section.texts("actuators")? {
            None => actuators.extend(0..model.ffi().nu as usize),
            Some(texts) => {
                for text in texts {
                    let found = object(model, MjtObjBase::mjOBJ_ACTUATOR, "actuator", &text.text);
                    let id = found.map_err(|error| text.refuse(error))?;
                    if actuators.contains(&id) {
                        return Err(text.refuse(format!("actuator '{}' is there twice", text.text)));
                    }
                    actuators.push(id);
                }
            }
        }
        if actuators.is_empty() {
            return Err(section.missing(
                "actuators",
                "one actuator at least; for a model that has none see [motors]",
            ));
        }
        let range = section.pair("range")?;
        let scaled = actuators.into_iter().map(|i| {
            let (low, high) = range.unwrap_or_else(|| match model.actuator_ctrllimited()[i] {
                true => {
                    let [low, high] = model.actuator_ctrlrange()[i];
                    (low, high)
                }
                false => (-1.0, 1.0),
            });
            (i, ((high - low) / 2.0, (high + low) / 2.0))
        });
        let scaled = scaled.collect();
        section.finish()?;
        Ok(scaled)
    }

    fn noise(entry: Entry, model: &MjModel) -> Result<Noise, Mistake> {
        let (name, at) = (entry.name.clone(), entry.at);
        let draw = match entry.as_number() {
            Some(scale) if (0.0..=WIDEST_NOISE).contains(&scale) => Draw::Uniform(-scale, scale),
            Some(_) => return Err(mistake(at, format!("noise on {name}: expected 0 to 1e100"))),
            None => {
                let expected = "a number, { normal = DEVIATION } or { uniform = [FROM, TO] }";
                let refused = entry.refuse(expected);
                let mut section = entry.into_section().ok_or(refused.clone())?;
                let draw = match (section.pair("uniform")?, section.number("normal")?) {
                    (Some((from, to)), None) => Draw::Uniform(from, to),
                    (None, Some(deviation)) if deviation >= 0.0 => Draw::Normal(deviation),
                    _ => return Err(mistake(at, format!("noise on {name}: expected {expected}"))),
                };
                section.finish()?;
                draw
            }
        };
        Noise::new(model, &name, draw).map_err(|error| mistake(at, error))
    }

    fn parameter(entry: Entry, model: &MjModel) -> Result<Parameter, Mistake> {
        let (name, at) = (entry.name.clone(), entry.at);
        let expected = "{ scale = [FROM, TO] }, { add = [FROM, TO] } or { range = [FROM, TO] }";
        let refused = entry.refuse(expected);
        let mut section = entry.into_section().ok_or(refused)?;
        let drawn = [
            (Change::Multiply, section.pair("scale")?),
            (Change::Add, section.pair("add")?),
            (Change::Replace, section.pair("range")?),
        ];
        section.finish()?;
        let given: Vec<(Change, (f64, f64))> =
            drawn.into_iter().filter_map(|(change, pair)| Some((change, pair?))).collect();
        match given[..] {
            [(change, (from, to))] => {
                let made = Parameter::new(model, &name, change, Draw::Uniform(from, to));
                made.map_err(|error| mistake(at, error))
            }
            _ => Err(mistake(at, format!("{name}: expected one of {expected}"))),
        }
    }

    fn term(entry: Entry, compiler: &mut Compiler<Measured>) -> Result<Term, Mistake> {
        if let Some(text) = entry.as_text() {
            let span = scalar(&text, compiler)?;
            return Ok(Term { name: entry.name, weight: 1.0, span });
        }
        let refused = entry.refuse("an expression, or { value = \"...\", weight = 1 }");
        let name = entry.name.clone();
        let mut section = entry.into_section().ok_or(refused)?;
        let value = section.text("value")?;
        let value = value.ok_or_else(|| section.missing("value", "an expression"))?;
        let weight = section.number("weight")?.unwrap_or(1.0);
        section.finish()?;
        Ok(Term { name, weight, span: scalar(&value, compiler)? })
    }

    fn cost(entry: Entry, compiler: &mut Compiler<Measured>) -> Result<(Cost, Span), Mistake> {
        check_name("a cost", &entry.name).map_err(|message| mistake(entry.at, message))?;
        let refused = entry.refuse("a table with value and threshold");
        let name = entry.name.clone();
        let mut section = entry.into_section().ok_or(refused)?;
        let value = section.text("value")?;
        let value = value.ok_or_else(|| section.missing("value", "an expression"))?;
        let span = scalar(&value, compiler)?;
        let threshold = section.number("threshold")?;
        let threshold =
            threshold.ok_or_else(|| section.missing("threshold", "the usual bound, a number"))?;
        let aggregate = match section.text("aggregate")? {
            None => Aggregate::Mean,
            Some(text) => {
                let known = Aggregate::ALL.into_iter().find(|a| a.name() == text.text);
                known.ok_or_else(|| {
                    text.refuse(format!("unknown aggregate '{}': expected mean or sum", text.text))
                })?
            }
        };
        let description = section.text("description")?.map_or(value.text, |text| text.text);
        section.finish()?;
        Ok((
            Cost { name: name.into(), aggregate, threshold, description: description.into() },
            span,
        ))
    }
}

fn scalar(text: &Text, compiler: &mut Compiler<Measured>) -> Result<Span, Mistake> {
    compiler.scalar(&text.expression()?).map_err(|wrong| text.wrong(&wrong))
}

/// Names of tasks are parts of paths, those of costs parts of constraints.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(fits) && !name.starts_with('-') {
        true => Ok(()),
        false => Err(format!("{what}: '{name}' is no name: expected letters, digits, _ and -")),
    }
}
