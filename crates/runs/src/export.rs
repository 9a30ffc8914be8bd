//! A policy in forms that other programs load: ONNX, and JSON for those that load nothing.
//!
//! What is exported is the mean action: from `observation`, as it comes from the task, to `action`, in
//! [-1, 1], or as an environment that is none of this program's takes it. Whatever the policy does to
//! observations is part of its weights.

use nets::Activation;
use serde_json::json;

use crate::interface::Action;
use crate::output::holds;
use crate::policy::Policy;
use crate::protobuf::Message;

/// The layers of the mean action: weights (outputs × inputs), biases, and what follows.
struct Layer<'a> {
    inputs: usize,
    outputs: usize,
    weights: &'a [f32],
    biases: &'a [f32],
    then: Option<Activation>,
}

fn layers(policy: &Policy) -> Vec<Layer<'_>> {
    let (net, choices) = (&policy.actor, policy.choices());
    let sizes = net.sizes();
    (0..net.layers())
        .map(|layer| {
            // The head is [μ, log σ]; without noise, only μ matters, and tanh μ is the action. Or it is
            // scores, and the action the largest.
            let last = layer + 1 == net.layers();
            let inputs = sizes[layer];
            let outputs = sizes[layer + 1] / if last && choices.is_none() { 2 } else { 1 };
            Layer {
                inputs,
                outputs,
                weights: &net.params()[net.weight_range(layer)][..outputs * inputs],
                biases: &net.params()[net.bias_range(layer)][..outputs],
                then: match (last, choices) {
                    (false, _) => Some(net.activation()),
                    (true, None) => Some(Activation::Tanh),
                    (true, Some(_)) => None,
                },
            }
        })
        .collect()
}

/// Whether a file is an export: the forms can be told apart by nothing but what they begin with.
pub fn is_ours(found: &[u8]) -> bool {
    ["\"__metadata__\":{\"ecrl\":", "\"program\":\"ecrl ", "ecrl"]
        .iter()
        .zip([100, 1000, 40])
        .any(|(mark, within)| holds(&found[..found.len().min(within)], mark))
}

/// What a user of the policy should know of it, by name.
fn metadata(policy: &Policy) -> Vec<(&'static str, String)> {
    let about = &policy.about;
    let mut all = vec![
        ("program", about.program.clone()),
        ("exported_by_commit", env!("ECRL_COMMIT").to_owned()),
        ("task", about.task.clone()),
        ("algorithm", about.algorithm.clone()),
        ("seed", about.seed.to_string()),
        ("env_steps", about.env_steps.to_string()),
        ("constraints", about.constraints.join(", ")),
    ];
    for (reward, cost, names) in [
        (about.reward, &about.cost, ["reward", "J_C"]),
        (about.sampled_reward, &about.sampled_cost, ["sampled_reward", "sampled_J_C"]),
    ] {
        if let Some(reward) = reward {
            all.push((names[0], reward.to_string()));
        }
        if let Some(cost) = cost {
            let values: Vec<String> = cost.iter().map(f64::to_string).collect();
            all.push((names[1], values.join(", ")));
        }
    }
    all
}

/// The policy as JSON: layer by layer, `y = f(W x + b)`.
pub fn json(policy: &Policy) -> String {
    let layers: Vec<_> = layers(policy)
        .iter()
        .map(|layer| {
            json!({
                "weight": layer.weights.chunks_exact(layer.inputs).collect::<Vec<_>>(),
                "bias": layer.biases,
                "activation": layer.then,
            })
        })
        .collect();
    let about: serde_json::Map<_, _> =
        metadata(policy).into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    let action = policy.about.interface.as_ref().map(|interface| &interface.action);
    let end = match action {
        None => "action = x",
        Some(Action::Box { .. }) => "action = low + (x + 1) / 2 (high - low)",
        Some(Action::Discrete { .. }) => {
            "action = start + the place of the largest of x, from 0 on"
        }
    };
    let how = "x = observation; for each layer: x = activation(weight x + bias)";
    let mut text = json!({ "about": about, "how": format!("{how}; {end}"), "layers": layers });
    if let Some(interface) = &policy.about.interface {
        text["observation"] = json!(interface.observation);
        text["action"] = json!(interface.action);
    }
    text.to_string()
}

/// The policy as an ONNX model: `observation` (batch × n) to `action` (batch × m).
pub fn onnx(policy: &Policy) -> Vec<u8> {
    let layers = layers(policy);
    let mut graph = Message::default();
    let mut tensors = Vec::new();
    let mut input = "observation".to_owned();
    let action = policy.about.interface.as_ref().map(|interface| &interface.action);
    for (i, layer) in layers.iter().enumerate() {
        let [weight, bias, sum] = ["weight", "bias", "sum"].map(|part| format!("layer{i}.{part}"));
        let shape = [layer.outputs, layer.inputs];
        tensors.push(tensor(&weight, &shape, layer.weights));
        tensors.push(tensor(&bias, &shape[..1], layer.biases));
        graph.message(1, node("Gemm", &[&input, &weight, &bias], &sum, &[("transB", 1)]));
        input = sum;
        if let Some(activation) = layer.then {
            let last = i + 1 == layers.len() && action.is_none();
            let output = if last { "action".to_owned() } else { format!("layer{i}.output") };
            let operator = match activation {
                Activation::Relu => "Relu",
                Activation::Tanh => "Tanh",
            };
            graph.message(1, node(operator, &[&input], &output, &[]));
            input = output;
        }
    }
    match action {
        None => {}
        Some(Action::Discrete { start, .. }) => {
            let along = [("axis", 1), ("keepdims", 1)];
            graph.message(1, node("ArgMax", &[&input], "place", &along));
            graph.message(1, node("Add", &["place", "start"], "action", &[]));
            tensors.push(integer("start", *start));
        }
        Some(action) => {
            let (half, middle) = action.scales().expect("bounds");
            graph.message(1, node("Mul", &[&input, "half"], "scaled", &[]));
            graph.message(1, node("Add", &["scaled", "middle"], "action", &[]));
            tensors.push(tensor("half", &[half.len()], &half));
            tensors.push(tensor("middle", &[middle.len()], &middle));
        }
    }
    graph.text(2, "policy");
    tensors.into_iter().for_each(|tensor| graph.message(5, tensor));
    graph.message(11, value("observation", FLOAT, layers[0].inputs));
    let kind = if policy.choices().is_some() { INTEGER } else { FLOAT };
    graph.message(12, value("action", kind, policy.actions()));

    let mut model = Message::default();
    model.number(1, 8); // the version of the format
    model.text(2, "ecrl");
    model.text(3, env!("CARGO_PKG_VERSION"));
    model.message(7, graph);
    let mut operators = Message::default();
    operators.number(2, 13);
    model.message(8, operators);
    for (key, value) in metadata(policy) {
        let mut entry = Message::default();
        entry.text(1, key);
        entry.text(2, &value);
        model.message(14, entry);
    }
    model.0
}

fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[(&str, u64)]) -> Message {
    let mut node = Message::default();
    inputs.iter().for_each(|input| node.text(1, input));
    node.text(2, output);
    node.text(3, output);
    node.text(4, operator);
    for (name, value) in attributes {
        let mut attribute = Message::default();
        attribute.text(1, name);
        attribute.number(3, *value);
        attribute.number(20, 2); // an integer
        node.message(5, attribute);
    }
    node
}

/// Types of numbers in ONNX.
const FLOAT: u64 = 1;
const INTEGER: u64 = 7;

/// One whole number.
fn integer(name: &str, number: i64) -> Message {
    let mut tensor = Message::default();
    tensor.number(1, 1);
    tensor.number(2, INTEGER);
    tensor.text(8, name);
    tensor.bytes(9, &number.to_le_bytes());
    tensor
}

fn tensor(name: &str, shape: &[usize], numbers: &[f32]) -> Message {
    let mut tensor = Message::default();
    shape.iter().for_each(|&size| tensor.number(1, size as u64));
    tensor.number(2, FLOAT);
    tensor.text(8, name);
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor.bytes(9, &bytes);
    tensor
}

/// A matrix with any number of rows.
fn value(name: &str, kind: u64, columns: usize) -> Message {
    let mut shape = Message::default();
    let mut rows = Message::default();
    rows.text(2, "batch");
    shape.message(1, rows);
    let mut width = Message::default();
    width.number(1, columns as u64);
    shape.message(1, width);
    let mut matrix = Message::default();
    matrix.number(1, kind);
    matrix.message(2, shape);
    let mut typed = Message::default();
    typed.message(1, matrix);
    let mut value = Message::default();
    value.text(1, name);
    value.message(2, typed);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{Interface, Part};
    use crate::policy::About;
    use nets::{Mlp, gaussian};
    use serde_json::Value;

    fn policy(activation: Activation) -> Policy {
        let actor = Mlp::new(&[3, 5, 4], activation, &mut cmdp::rng([1; 4]));
        let about = About::new("hopper", "ecrl", 0, &["mean(torque)<=0.4".into()]);
        Policy { actor, about }
    }

    #[test]
    fn an_interface_that_contradicts_the_network_is_refused() {
        let part = |shape: &[usize]| Part { path: vec![], shape: shape.to_vec() };
        let bounds = |low: usize, high: usize, shape: &[usize]| Action::Box {
            low: vec![-1.0; low],
            high: vec![1.0; high],
            shape: shape.to_vec(),
            dtype: "float32".into(),
        };
        let read = |observation: Vec<Part>, action: Action| {
            let (max_episode_steps, recipe) = (None, None);
            let interface = Interface { observation, action, max_episode_steps, recipe };
            let mut policy = policy(Activation::Tanh);
            policy.about.interface = Some(interface);
            Policy::from_bytes(&policy.to_bytes(), "x".as_ref()).is_ok()
        };
        // The network takes three numbers and gives four.
        assert!(read(vec![part(&[3])], bounds(2, 2, &[2])));
        assert!(read(vec![part(&[]), part(&[1, 2])], Action::Discrete { n: 4, start: -1 }));
        for (observation, action) in [
            (vec![part(&[4])], bounds(2, 2, &[2])),
            (vec![part(&[3])], bounds(2, 1, &[2])),
            (vec![part(&[3])], bounds(2, 2, &[3])),
            (vec![part(&[3])], Action::Discrete { n: 3, start: 0 }),
            (vec![part(&[usize::MAX, 2])], bounds(2, 2, &[2])),
            (vec![part(&[usize::MAX]), part(&[4])], bounds(2, 2, &[2])),
        ] {
            assert!(!read(observation.clone(), action.clone()), "{observation:?} {action:?}");
        }
    }

    #[test]
    fn json_is_the_policy() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let policy = policy(activation);
            let value: Value = serde_json::from_str(&json(&policy)).unwrap();
            let obs = [0.3f32, -1.0, 0.7];
            let mut x: Vec<f64> = obs.iter().map(|&x| x.into()).collect();
            for layer in value["layers"].as_array().unwrap() {
                let row = |(row, bias): (&Value, &Value)| {
                    let products = row.as_array().unwrap().iter().zip(&x);
                    let sum: f64 = products.map(|(w, x)| w.as_f64().unwrap() * x).sum();
                    let y = sum + bias.as_f64().unwrap();
                    if layer["activation"] == "relu" { y.max(0.0) } else { y.tanh() }
                };
                let rows = layer["weight"].as_array().unwrap();
                x = rows.iter().zip(layer["bias"].as_array().unwrap()).map(row).collect();
            }
            let (mut action, mut scratch) = ([0.0; 2], Vec::new());
            gaussian::act(policy.actor.forward_one(&obs, &mut scratch), None, &mut action);
            assert_eq!(x.len(), 2);
            assert!(x.iter().zip(action).all(|(a, b)| (a - f64::from(b)).abs() < 1e-6));
            assert_eq!(value["about"]["task"], "hopper");
        }
    }
}
