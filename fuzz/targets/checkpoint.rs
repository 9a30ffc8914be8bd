//! A checkpoint of a run with a population and a replay buffer.
#![no_main]

mod stored;

use std::cell::RefCell;

use stored::Stored;

const CONFIG: &str = "steps = 400\n[learner]\nlearning_starts = 100\n[sac]\nhidden = [4]\nbatch = 8\n\
    [replay]\ncapacity = 500\n[evolution]\npopulation = 4\nelites = 1\ntournament = 2";

thread_local! {
    static RUN: RefCell<Stored> = RefCell::new(Stored::new(CONFIG));
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| RUN.with_borrow_mut(|run| run.read(input)));
