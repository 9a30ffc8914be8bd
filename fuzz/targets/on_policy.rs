//! A checkpoint of an on-policy run, in the midst of its episodes and of its updates.
#![no_main]

mod stored;

use std::cell::RefCell;

use stored::Stored;

const CONFIG: &str = "algorithm = 'ipo'\nsteps = 400\n[ppo]\nhidden = [4]\nenvs = 2\ncollect = 24\n\
    batch = 8\nepochs = 4";

thread_local! {
    static RUN: RefCell<Stored> = RefCell::new(Stored::new(CONFIG));
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| RUN.with_borrow_mut(|run| run.read(input)));
