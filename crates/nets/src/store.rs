//! Named tensors on disk, as safetensors: readable from Python, Rust and most else.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{Activation, Mlp};

/// The header's entry that holds [`Store::about`].
const ABOUT: &str = "ecrl";

/// Named tensors of f32 with their shapes, and what they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Store {
    /// What the tensors are, as text (JSON, say), kept in the file's header. One entry only: the
    /// order of several would change from run to run, and with it the file's bytes.
    pub about: String,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    bytes: BTreeMap<String, Vec<u8>>,
}

/// Bytes that do not hold what was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Not safetensors.
    #[error("not a safetensors file: {0}")]
    Format(String),
    /// A tensor is neither numbers of f32 nor bytes.
    #[error("tensor '{name}' is {found}; expected F32 or U8")]
    Type {
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
    },
    /// A tensor is missing.
    #[error("tensor '{0}' is missing")]
    Missing(String),
    /// A tensor has another shape.
    #[error("tensor '{name}' has shape {found:?}; expected {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape expected.
        expected: Vec<usize>,
    },
    /// A tensor holds a number that is not finite.
    #[error("tensor '{0}' holds a number that is not finite")]
    NotFinite(String),
}

impl Store {
    /// No tensors yet, and what they are.
    pub fn new(about: String) -> Self {
        Self { about, ..Self::default() }
    }

    /// Adds one tensor.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize], numbers: &[f32]) {
        assert_eq!(shape.iter().product::<usize>(), numbers.len(), "shape");
        self.tensors.insert(name.into(), (shape.to_vec(), numbers.to_vec()));
    }

    /// Adds a network's tensors: `<prefix>.0.weight`, `<prefix>.0.bias`, ...
    pub fn add_mlp(&mut self, prefix: &str, net: &Mlp) {
        for (name, shape, range) in mlp_tensors(prefix, net) {
            self.add(name, &shape, &net.params()[range]);
        }
    }

    /// Adds what is no tensor of numbers.
    pub fn add_bytes(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.bytes.insert(name.into(), bytes);
    }

    /// What [`add_bytes`](Self::add_bytes) stored.
    pub fn bytes(&self, name: &str) -> Result<&[u8], StoreError> {
        let bytes = self.bytes.get(name).ok_or_else(|| StoreError::Missing(name.into()))?;
        Ok(bytes)
    }

    /// The names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// One tensor's shape.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|(shape, _)| &shape[..])
    }

    /// One tensor's numbers, which must have this shape and be finite.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<&[f32], StoreError> {
        let (found, numbers) =
            self.tensors.get(name).ok_or_else(|| StoreError::Missing(name.into()))?;
        if found != shape {
            let (found, expected) = (found.clone(), shape.to_vec());
            return Err(StoreError::Shape { name: name.into(), found, expected });
        }
        if numbers.iter().any(|x| !x.is_finite()) {
            return Err(StoreError::NotFinite(name.into()));
        }
        Ok(numbers)
    }

    /// The network that [`add_mlp`](Self::add_mlp) stored, which must have these sizes.
    pub fn mlp(
        &self,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Mlp, StoreError> {
        let mut net = Mlp::zeros(sizes, activation);
        for (name, shape, range) in mlp_tensors(prefix, &net) {
            net.params_mut()[range].copy_from_slice(self.get(&name, &shape)?);
        }
        Ok(net)
    }

    /// The file's content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, (shape, numbers))| {
            let bytes = bytemuck::cast_slice(numbers);
            (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("lengths agree"))
        });
        let bytes = self.bytes.iter().map(|(name, bytes)| {
            let view = TensorView::new(Dtype::U8, vec![bytes.len()], bytes);
            (name, view.expect("lengths agree"))
        });
        let about = HashMap::from([(ABOUT.to_owned(), self.about.clone())]);
        safetensors::serialize(views.chain(bytes), Some(about)).expect("views are consistent")
    }

    /// Reads a file's content.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let format = |error: safetensors::SafeTensorError| StoreError::Format(error.to_string());
        let file = SafeTensors::deserialize(bytes).map_err(format)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(format)?;
        let mut store = Self::default();
        let about = header.metadata().as_ref().and_then(|metadata| metadata.get(ABOUT));
        store.about = about.cloned().unwrap_or_default();
        for (name, view) in file.iter() {
            if view.dtype() == Dtype::U8 {
                store.bytes.insert(name.into(), view.data().to_vec());
                continue;
            }
            if view.dtype() != Dtype::F32 {
                let found = format!("{:?}", view.dtype());
                return Err(StoreError::Type { name: name.into(), found });
            }
            let numbers = view.data().chunks_exact(4);
            let numbers: Vec<f32> =
                numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            store.tensors.insert(name.into(), (view.shape().to_vec(), numbers));
        }
        Ok(store)
    }
}

/// Name, shape and place of every tensor of a network.
pub fn mlp_tensors(prefix: &str, net: &Mlp) -> Vec<(String, Vec<usize>, std::ops::Range<usize>)> {
    (0..net.layers())
        .flat_map(|layer| {
            let (inputs, outputs) = (net.sizes()[layer], net.sizes()[layer + 1]);
            [
                (
                    format!("{prefix}.{layer}.weight"),
                    vec![outputs, inputs],
                    net.weight_range(layer),
                ),
                (format!("{prefix}.{layer}.bias"), vec![outputs], net.bias_range(layer)),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net() -> Mlp {
        Mlp::new(&[3, 5, 2], Activation::Relu, &mut cmdp::rng([1; 4]))
    }

    fn stored() -> Store {
        let about = r#"{"task": "hopper"}"#.into();
        let mut store = Store::new(about);
        store.add_mlp("actor", &net());
        store.add_bytes("more", vec![1, 2, 3]);
        store
    }

    #[test]
    fn what_is_stored_comes_back_to_the_bit() {
        let read = Store::from_bytes(&stored().to_bytes()).unwrap();
        assert_eq!(read, stored());
        assert_eq!(read.bytes("more").unwrap(), [1, 2, 3]);
        assert_eq!(read.mlp("actor", &[3, 5, 2], Activation::Relu).unwrap(), net());
        let names: Vec<&str> = read.names().collect();
        assert_eq!(names, ["actor.0.bias", "actor.0.weight", "actor.1.bias", "actor.1.weight"]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let message = |sizes: &[usize]| {
            stored().mlp("actor", sizes, Activation::Relu).unwrap_err().to_string()
        };
        assert_eq!(
            message(&[4, 5, 2]),
            "tensor 'actor.0.weight' has shape [5, 3]; expected [5, 4]"
        );
        assert_eq!(message(&[3, 5, 2, 2]), "tensor 'actor.2.weight' is missing");
        let mut broken = stored();
        broken.add("actor.1.bias", &[2], &[0.0, f32::NAN]);
        let error = broken.mlp("actor", &[3, 5, 2], Activation::Relu).unwrap_err().to_string();
        assert_eq!(error, "tensor 'actor.1.bias' holds a number that is not finite");
    }

    #[test]
    fn torn_or_foreign_bytes_are_refused() {
        let bytes = stored().to_bytes();
        for cut in 0..bytes.len() {
            assert!(Store::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Store::from_bytes(b"PK\x03\x04 nothing of the kind").is_err());
    }
}
