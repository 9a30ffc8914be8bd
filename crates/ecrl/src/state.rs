//! One walk over all state: what is walked is saved, loaded, and searched for numbers that are not
//! finite.
//!
//! Who holds state walks it, name by name, whatever for:
//!
//! ```text
//! fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
//!     walk.net("actor", &mut self.actor)?;
//!     walk.adam("actor.adam", &mut self.adam)?;
//!     walk.plain("steps", &mut self.steps)
//! }
//! ```

use nets::store::{Store, StoreError, mlp_tensors};
use nets::{Adam, Mlp, Trained};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// State that cannot be saved or loaded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StateError {
    /// A tensor is missing, has another shape, or holds a number that is not finite.
    #[error(transparent)]
    Tensor(#[from] StoreError),
    /// A value cannot be read.
    #[error("'{name}' cannot be read: {error}")]
    Unreadable {
        /// The value.
        name: String,
        /// What is wrong.
        error: String,
    },
    /// The state is of another algorithm, or of another version of it.
    #[error("it is a state of {found}; expected one of {expected}")]
    Version {
        /// The algorithm and version it is of.
        found: String,
        /// Those expected.
        expected: String,
    },
    /// A value does not fit the rest.
    #[error("'{name}' does not fit: expected {expected}")]
    Misfit {
        /// The value.
        name: String,
        /// What was expected.
        expected: &'static str,
    },
}

/// What a walk is for.
enum Purpose<'a> {
    /// Put everything into a store.
    Save(&'a mut Store),
    /// See that everything can be loaded; change nothing.
    Verify(&'a Store),
    /// Take everything from a store.
    Load(&'a Store),
    /// Find a number that is not finite.
    Search,
}

/// A walk over all state.
pub struct Walk<'a> {
    purpose: Purpose<'a>,
    /// Where names begin.
    part: String,
    notes: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(purpose: Purpose<'a>) -> Self {
        Self { purpose, part: String::new(), notes: Vec::new() }
    }

    /// Saves everything that `over` walks.
    pub fn save(
        mut over: impl FnMut(&mut Walk) -> Result<(), StateError>,
    ) -> Result<Store, StateError> {
        let mut store = Store::default();
        over(&mut Walk::new(Purpose::Save(&mut store)))?;
        Ok(store)
    }

    /// Loads everything that `over` walks, after all of it was verified; returns what there is to
    /// say about it.
    pub fn load(
        store: &'a Store,
        mut over: impl FnMut(&mut Walk) -> Result<(), StateError>,
    ) -> Result<Vec<String>, StateError> {
        over(&mut Walk::new(Purpose::Verify(store)))?;
        let mut walk = Walk::new(Purpose::Load(store));
        over(&mut walk)?;
        Ok(walk.notes)
    }

    /// The name of the first tensor, in the order of the walk, that holds a number that is not
    /// finite.
    pub fn find_not_finite(
        mut over: impl FnMut(&mut Walk) -> Result<(), StateError>,
    ) -> Option<String> {
        match over(&mut Walk::new(Purpose::Search)) {
            Err(StateError::Tensor(StoreError::NotFinite(name))) => Some(name),
            _ => None,
        }
    }

    /// Walks a part, whose names all begin with its own.
    pub fn within<R>(&mut self, part: &str, over: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.part.len();
        self.part.extend([part, "."]);
        let result = over(self);
        self.part.truncate(before);
        result
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.part)
    }

    /// Whether state is being loaded, for what must be done about it elsewhere.
    pub fn is_loading(&self) -> bool {
        matches!(self.purpose, Purpose::Load(_))
    }

    /// What is to be verified before it is loaded; none where nothing is.
    pub fn stored<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StateError> {
        match &self.purpose {
            Purpose::Verify(store) => decoded(store, &self.named(name)).map(Some),
            _ => Ok(None),
        }
    }

    /// Says something about what was loaded.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Numbers of a fixed shape.
    pub fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        numbers: &mut [f32],
    ) -> Result<(), StateError> {
        let name = &self.named(name);
        match &mut self.purpose {
            Purpose::Save(store) => store.add(name, shape, numbers),
            Purpose::Verify(store) => _ = store.get(name, shape)?,
            Purpose::Load(store) => numbers.copy_from_slice(store.get(name, shape)?),
            Purpose::Search => search(name, numbers)?,
        }
        Ok(())
    }

    /// Numbers of which there will be `len` after the walk.
    pub fn list(
        &mut self,
        name: &str,
        len: usize,
        numbers: &mut Vec<f32>,
    ) -> Result<(), StateError> {
        if self.is_loading() {
            numbers.resize(len, 0.0);
        }
        self.tensor(name, &[len], numbers)
    }

    /// A network's weights and biases.
    pub fn net(&mut self, name: &str, net: &mut Mlp) -> Result<(), StateError> {
        for (name, shape, range) in mlp_tensors(name, net) {
            self.tensor(&name, &shape, &mut net.params_mut()[range])?;
        }
        Ok(())
    }

    /// An optimiser's moments and steps.
    pub fn adam(&mut self, name: &str, adam: &mut Adam) -> Result<(), StateError> {
        let (steps, m, v) = adam.state_mut();
        self.tensor(&format!("{name}.m"), &[m.len()], m)?;
        self.tensor(&format!("{name}.v"), &[v.len()], v)?;
        self.plain(&format!("{name}.steps"), steps)
    }

    /// A network and its optimiser.
    pub fn trained(&mut self, name: &str, trained: &mut Trained) -> Result<(), StateError> {
        self.net(name, &mut trained.net)?;
        self.adam(&format!("{name}.adam"), &mut trained.adam)
    }

    /// Numbers of a fixed count that must be finite, of more digits than a network's.
    pub fn numbers(&mut self, name: &str, numbers: &mut Vec<f64>) -> Result<(), StateError> {
        if matches!(self.purpose, Purpose::Search) && !numbers.iter().all(|x| x.is_finite()) {
            return Err(StoreError::NotFinite(self.named(name)).into());
        }
        self.fitting(name, numbers, "as many numbers, all finite", |stored, own| {
            stored.len() == own.len() && stored.iter().all(|x| x.is_finite())
        })
    }

    /// Anything else.
    pub fn plain<T>(&mut self, name: &str, value: &mut T) -> Result<(), StateError>
    where
        T: Serialize + DeserializeOwned,
    {
        self.fitting(name, value, "it as it was saved", |_, _| true)
    }

    /// Anything else that must fit what is there; `fits` compares what is stored with that.
    pub fn fitting<T>(
        &mut self,
        name: &str,
        value: &mut T,
        expected: &'static str,
        fits: impl Fn(&T, &T) -> bool,
    ) -> Result<(), StateError>
    where
        T: Serialize + DeserializeOwned,
    {
        let (loading, name) = (self.is_loading(), &self.named(name));
        match &mut self.purpose {
            Purpose::Save(store) => {
                let mut bytes = Vec::new();
                ciborium::into_writer(value, &mut bytes).expect("plain data");
                store.add_bytes(name, bytes);
            }
            Purpose::Verify(store) | Purpose::Load(store) => {
                let stored: T = decoded(store, name)?;
                if !fits(&stored, value) {
                    return Err(StateError::Misfit { name: name.into(), expected });
                }
                if loading {
                    *value = stored;
                }
            }
            Purpose::Search => {}
        }
        Ok(())
    }

    /// Refuses what is stored under a name unless it holds.
    pub fn verify<T: DeserializeOwned>(
        &self,
        name: &str,
        expected: &'static str,
        holds: impl Fn(&T) -> bool,
    ) -> Result<(), StateError> {
        match self.stored(name)? {
            Some(stored) if !holds(&stored) => {
                Err(StateError::Misfit { name: self.named(name), expected })
            }
            _ => Ok(()),
        }
    }

    /// What a value will be after the walk, where others must have a length that follows from it.
    pub fn peek<T: DeserializeOwned>(&self, name: &str, value: T) -> Result<T, StateError> {
        match &self.purpose {
            Purpose::Verify(store) | Purpose::Load(store) => decoded(store, &self.named(name)),
            Purpose::Save(_) | Purpose::Search => Ok(value),
        }
    }
}

fn decoded<T: DeserializeOwned>(store: &Store, name: &str) -> Result<T, StateError> {
    let error = |error: &dyn std::fmt::Display| StateError::Unreadable {
        name: name.into(),
        error: error.to_string(),
    };
    let mut bytes = store.bytes(name)?;
    let value = ciborium::from_reader(&mut bytes).map_err(|e| error(&e))?;
    match bytes {
        [] => Ok(value),
        more => Err(error(&format!("{} bytes too many", more.len()))),
    }
}

fn search(name: &str, numbers: &[f32]) -> Result<(), StoreError> {
    match numbers.iter().all(|x| x.is_finite()) {
        true => Ok(()),
        false => Err(StoreError::NotFinite(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nets::Activation;

    struct Holder {
        net: Mlp,
        adam: Adam,
        list: Vec<f32>,
        most: f64,
    }

    impl Holder {
        fn new(seed: u64) -> Self {
            let net = Mlp::new(&[3, 4, 2], Activation::Relu, &mut cmdp::rng([seed; 4]));
            let adam = Adam::new(net.params().len(), 0.1);
            Self { net, adam, list: vec![seed as f32; seed as usize], most: 0.0 }
        }

        fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
            walk.net("net", &mut self.net)?;
            walk.adam("net.adam", &mut self.adam)?;
            let mut len = self.list.len();
            let stored = walk.peek("len", len)?;
            walk.plain("len", &mut len)?;
            walk.list("list", stored, &mut self.list)?;
            walk.fitting("most", &mut self.most, "a number from 0 on", |x, _| *x >= 0.0)
        }
    }

    #[test]
    fn what_is_saved_is_loaded_infinities_and_all() {
        let mut first = Holder::new(3);
        first.most = f64::INFINITY;
        let gradient = vec![0.5; first.net.params().len()];
        first.adam.step(first.net.params_mut(), [&gradient]);
        let store = Walk::save(|walk| first.walk(walk)).unwrap();
        let store = Store::from_bytes(&store.to_bytes()).unwrap();
        let mut second = Holder::new(5);
        assert!(Walk::load(&store, |walk| second.walk(walk)).unwrap().is_empty());
        assert_eq!((&second.net, &second.adam), (&first.net, &first.adam));
        assert_eq!((second.list, second.most), (first.list, f64::INFINITY));
    }

    #[test]
    fn nothing_changes_where_anything_is_wrong() {
        let mut first = Holder::new(3);
        let whole = Walk::save(|walk| first.walk(walk)).unwrap();
        let mut broken = [(); 4].map(|()| whole.clone());
        broken[0].add("list", &[2], &[1.0, 2.0]);
        broken[1].add_bytes("most", vec![0xff]);
        broken[2].add_bytes("most", vec![0xfb, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0]); // -1
        broken[3].add_bytes("len", vec![3, 3]);
        let expected = [
            "tensor 'list' has shape [2]; expected [3]",
            "'most' cannot be read: ",
            "'most' does not fit: expected a number from 0 on",
            "'len' cannot be read: 1 bytes too many",
        ];
        for (store, expected) in broken.iter().zip(expected) {
            let mut second = Holder::new(5);
            let error = Walk::load(store, |walk| second.walk(walk)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(second.net, Holder::new(5).net);
            assert_eq!(second.list.len(), 5);
        }
    }

    #[test]
    fn an_infinite_moment_is_found_by_name() {
        let mut holder = Holder::new(3);
        assert_eq!(Walk::find_not_finite(|walk| holder.walk(walk)), None);
        holder.adam.state_mut().2[7] = f32::INFINITY;
        let found = Walk::find_not_finite(|walk| holder.walk(walk));
        assert_eq!(found.as_deref(), Some("net.adam.v"));
        holder.net.params_mut()[0] = f32::NAN;
        let found = Walk::find_not_finite(|walk| holder.walk(walk));
        assert_eq!(found.as_deref(), Some("net.0.weight"));
    }
}
