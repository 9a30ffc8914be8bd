//! The one source of randomness: a generator that can be saved, and a key that names it.

/// The random generator of the whole project: fast, serialisable, the same on every machine.
pub type Rng = rand_chacha::ChaCha8Rng;

/// The generator named by four numbers, for example seed, stream, generation and index.
///
/// Two generators with different keys are independent, so parallel work can draw its own numbers
/// without regard to who runs first.
pub fn rng(key: [u64; 4]) -> Rng {
    let mut seed = [0; 32];
    for (bytes, number) in seed.chunks_exact_mut(8).zip(key) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    <Rng as rand::SeedableRng>::from_seed(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn every_number_of_the_key_matters() {
        let first = |key| rng(key).next_u64();
        assert_eq!(first([1, 2, 3, 4]), first([1, 2, 3, 4]));
        for key in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0], [2, 1, 3, 4]] {
            assert_ne!(first([1, 2, 3, 4]), first(key), "{key:?}");
        }
    }
}
