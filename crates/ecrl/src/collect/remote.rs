//! A stage elsewhere: other processes, or other machines, play, and what they played comes back.
//!
//! What crosses the line is a request and its reply, as bytes: a policy and a key there, a whole episode or
//! segment back. Nothing crosses it within an episode, so that a step costs there what it costs here. Who
//! is at the other end calls [`serve`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use cmdp::{Env, EnvSpec, Rng, Step};
use nets::{Activation, Mlp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::episodes::{Choice, Rollout, Ticket, play};
use super::segments::{Order, Running, Segment, Stored};
use super::stage::Stage;

/// A line to somebody who plays.
pub trait Link: Send {
    /// Sends a request and waits for its reply; where there is none, says why.
    fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, String>;

    /// Whether somebody new can be put at the other end.
    fn renews(&self) -> bool {
        false
    }

    /// Puts somebody new there, who knows nothing of what was played.
    fn again(&mut self) -> Result<(), String> {
        Err("nobody else is there".into())
    }
}

/// How often somebody new is put at the end of a line before a request is given up: it may take a while until it is known
/// which machine is lost.
const TRIES: usize = 8;

/// A line that survives whoever is at its other end, if it can be renewed: what was asked of one that is lost is asked
/// of the next, who begins where the running environments were.
struct Line {
    link: Box<dyn Link>,
    /// The running environments after the last request, where that may be needed.
    kept: Option<Vec<Stored>>,
}

impl Line {
    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, String> {
        let mut tries = 0;
        loop {
            match self.once(request) {
                Ok(reply) => return decoded(&reply).ok_or_else(|| UNREADABLE.into()),
                // Nobody is asked who has not begun where the one before was.
                Err(error) => loop {
                    tries += 1;
                    if tries > TRIES || !self.link.renews() {
                        return Err(error);
                    }
                    if self.renew() {
                        break;
                    }
                },
            }
        }
    }

    fn once(&mut self, request: &Request) -> Result<Vec<u8>, String> {
        let reply = self.link.call(&encoded(request))?;
        if self.link.renews() {
            match request {
                Request::GoOn { .. } => {
                    let kept = decoded(&self.link.call(&encoded(&Request::Capture))?);
                    self.kept = Some(kept.ok_or(UNREADABLE)?);
                }
                Request::Restore(stored) => self.kept = Some(stored.clone()),
                Request::Play { .. } | Request::Capture => {}
            }
        }
        Ok(reply)
    }

    /// Whether somebody new has begun where the one before was.
    fn renew(&mut self) -> bool {
        let begun = self.link.again().is_ok();
        let restore = self.kept.clone().map(|kept| encoded(&Request::Restore(kept)));
        begun && restore.is_none_or(|request| self.link.call(&request).is_ok())
    }
}

const UNREADABLE: &str = "its reply cannot be read";

#[derive(Serialize, Deserialize)]
enum Request {
    Play { actor: Net, key: [u64; 4], choice: Choice },
    GoOn { actors: Vec<Net>, steps: usize, costs: usize, key: [u64; 3] },
    Capture,
    Restore(Vec<Stored>),
}

#[derive(Serialize, Deserialize)]
struct Net {
    sizes: Vec<usize>,
    activation: Activation,
    #[serde(with = "floats")]
    params: Vec<f32>,
}

impl Net {
    fn of(net: &Mlp) -> Self {
        let (sizes, params) = (net.sizes().to_vec(), net.params().to_vec());
        Self { sizes, activation: net.activation(), params }
    }

    fn mlp(self) -> Option<Mlp> {
        let mut net = Mlp::zeros(&self.sizes, self.activation);
        let fits = net.params().len() == self.params.len();
        fits.then(|| {
            net.params_mut().copy_from_slice(&self.params);
            net
        })
    }
}

/// Answers a request from a stage; `None` where it is none of ours.
pub fn serve(stage: &mut dyn Stage, request: &[u8]) -> Option<Vec<u8>> {
    Some(match decoded(request)? {
        Request::Play { actor, key, choice } => {
            let actor = actor.mlp()?;
            encoded(&stage.play(&[Ticket { actor: &actor, key }], choice).pop()?)
        }
        Request::GoOn { actors, steps, costs, key } => {
            let actors: Vec<Mlp> = actors.into_iter().map(Net::mlp).collect::<Option<_>>()?;
            if actors.is_empty() {
                return None;
            }
            encoded(&stage.go_on(&Order { actors: &actors, steps, costs, key }))
        }
        Request::Capture => encoded(&stage.capture().ok()?),
        Request::Restore(stored) => encoded(&stage.restore(&stored)),
    })
}

/// The numbers of the environments that run at one of several links.
pub fn share(link: usize, links: usize, running: usize) -> impl Iterator<Item = u64> {
    (link..running).step_by(links).map(|number| number as u64)
}

/// A stage at the other ends of some lines, among which the running environments are shared as
/// [`share`] says.
pub struct Remote {
    spec: EnvSpec,
    links: Vec<Mutex<Line>>,
    running: usize,
}

impl Remote {
    /// Plays at the other ends of these lines, of which there must be one at least.
    pub fn new(spec: EnvSpec, links: Vec<Box<dyn Link>>, running: usize) -> Self {
        assert!(!links.is_empty(), "a line to somebody who plays");
        let line = |link| Mutex::new(Line { link, kept: None });
        Self { spec, links: links.into_iter().map(line).collect(), running }
    }

    /// Asks at every line, with the numbers of the environments that run there; what comes back is
    /// brought into the order of these numbers.
    fn ask_each<T: DeserializeOwned + Send>(
        &self,
        request: impl Fn(&[u64]) -> Request + Sync,
    ) -> Result<Vec<T>, String> {
        let links = self.links.len();
        let answers: Vec<Result<Vec<(u64, T)>, String>> = std::thread::scope(|scope| {
            let ask = |i: usize| {
                let numbers: Vec<u64> = share(i, links, self.running).collect();
                if numbers.is_empty() {
                    return Ok(Vec::new());
                }
                let answer: Vec<T> = ask(&self.links[i], &request(&numbers))?;
                match answer.len() == numbers.len() {
                    true => Ok(numbers.into_iter().zip(answer).collect()),
                    false => Err("it answers for other environments than it was asked of".into()),
                }
            };
            let threads: Vec<_> = (0..links).map(|i| scope.spawn(move || ask(i))).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        let mut all = Vec::new();
        for answer in answers {
            all.extend(answer?);
        }
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl Stage for Remote {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let next = AtomicUsize::new(0);
        let played: Vec<OnceLock<Rollout>> = tickets.iter().map(|_| OnceLock::new()).collect();
        std::thread::scope(|scope| {
            for link in self.links.iter().take(tickets.len()) {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some((ticket, place)) = tickets.get(i).zip(played.get(i)) else {
                            return;
                        };
                        let actor = Net::of(ticket.actor);
                        let request = Request::Play { actor, key: ticket.key, choice };
                        let rollout = ask(link, &request).unwrap_or_else(|error| {
                            play(&mut Gone { spec: &self.spec, error }, ticket, choice)
                        });
                        place.get_or_init(|| rollout);
                    }
                });
            }
        });
        played.into_iter().map(|rollout| rollout.into_inner().expect("every ticket")).collect()
    }

    fn go_on(&mut self, order: &Order) -> Vec<Segment> {
        let Order { actors, steps, costs, key } = *order;
        let actors = || actors.iter().map(Net::of).collect();
        let request = |_: &[u64]| Request::GoOn { actors: actors(), steps, costs, key };
        self.ask_each(request).unwrap_or_else(|error| {
            let gone = |number| {
                let env = Gone { spec: self.spec.clone(), error: error.clone() };
                Running::new(Box::new(env), number).play(order)
            };
            (0..self.running as u64).map(gone).collect()
        })
    }

    fn capture(&mut self) -> Result<Vec<Stored>, String> {
        if self.running == 0 { Ok(Vec::new()) } else { self.ask_each(|_| Request::Capture) }
    }

    fn restore(&mut self, stored: &[Stored]) -> Result<Vec<String>, String> {
        let part = |numbers: &[u64]| {
            Request::Restore(
                numbers.iter().map(|&number| stored[number as usize].clone()).collect(),
            )
        };
        // One answer for all environments of a line.
        let links = self.links.len();
        let mut notes = Vec::new();
        for (i, link) in self.links.iter().enumerate() {
            let numbers: Vec<u64> = share(i, links, self.running).collect();
            let answer: Result<Vec<String>, String> = ask(link, &part(&numbers))?;
            notes.extend(answer?);
        }
        notes.dedup();
        Ok(notes)
    }
}

fn ask<T: DeserializeOwned>(line: &Mutex<Line>, request: &Request) -> Result<T, String> {
    line.lock().map_err(|_| "an earlier request has failed")?.ask(request)
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("plain data");
    bytes
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    ciborium::from_reader(bytes).ok()
}

/// An environment that is out of reach.
struct Gone<S> {
    spec: S,
    error: String,
}

impl<S: std::borrow::Borrow<EnvSpec> + Send> Env for Gone<S> {
    fn spec(&self) -> &EnvSpec {
        self.spec.borrow()
    }

    fn reset(&mut self, _: &mut Rng, obs: &mut [f64]) {
        obs.fill(0.0);
    }

    fn step(&mut self, _: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        obs.fill(0.0);
        costs.fill(0.0);
        Step { reward: 0.0, terminated: true, truncated: false, unstable: false }
    }

    fn failure(&mut self) -> Option<String> {
        Some(self.error.clone())
    }
}

/// Many numbers as their bytes, which are the same on all machines that this runs on.
pub mod floats {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Writes them.
    pub fn serialize<S: Serializer>(numbers: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::cast_slice(numbers))
    }

    /// Reads them.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        struct Numbers;

        impl Visitor<'_> for Numbers {
            type Value = Vec<f32>;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("the bytes of numbers")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<f32>, E> {
                match bytes.as_chunks() {
                    (fours, []) => Ok(fours.iter().map(|four| f32::from_ne_bytes(*four)).collect()),
                    _ => Err(E::invalid_length(bytes.len(), &self)),
                }
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<f32>, E> {
                self.visit_bytes(&bytes)
            }
        }
        deserializer.deserialize_byte_buf(Numbers)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cmdp::{Fault, PointMass};

    use super::super::stage::Threads;
    use super::*;

    /// A line to a stage in this process, which is cut after some calls; perhaps another can be made.
    struct Here {
        stage: Threads,
        calls: usize,
        anew: Option<Box<dyn Fn() -> Threads + Send>>,
    }

    impl Link for Here {
        fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
            self.calls = self.calls.checked_sub(1).ok_or("cut")?;
            serve(&mut self.stage, request).ok_or_else(|| "what?".into())
        }

        fn renews(&self) -> bool {
            self.anew.is_some()
        }

        fn again(&mut self) -> Result<(), String> {
            self.stage = self.anew.as_ref().ok_or("nobody")?();
            self.calls = 5;
            Ok(())
        }
    }

    fn threads(running: &[u64]) -> Threads {
        let constraints = cmdp::Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS).unwrap();
        let make = || Box::new(PointMass::new(constraints.clone()).unwrap()) as Box<dyn Env>;
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        Threads::numbered(vec![make()], running.iter().map(|n| (make(), *n)).collect(), pool)
    }

    fn remote(links: usize, running: usize, calls: usize) -> Remote {
        let link = |i| {
            let stage = threads(&share(i, links, running).collect::<Vec<_>>());
            Box::new(Here { stage, calls, anew: None }) as Box<dyn Link>
        };
        Remote::new(threads(&[]).spec().clone(), (0..links).map(link).collect(), running)
    }

    fn actor(seed: u64) -> Mlp {
        Mlp::new(&[2, 8, 2], Activation::Tanh, &mut cmdp::rng([seed; 4]))
    }

    #[test]
    fn what_is_played_elsewhere_is_what_is_played_here() {
        let actors = [actor(7), actor(8)];
        let [actor, _] = &actors;
        let tickets: Vec<Ticket> = (0..7).map(|i| Ticket { actor, key: [1, 2, 3, i] }).collect();
        let order =
            |generation| Order { actors: &actors, steps: 130, costs: 1, key: [1, 2, generation] };
        let untimed = |mut segments: Vec<Segment>| {
            segments.iter_mut().for_each(|segment| segment.times = Default::default());
            segments
        };
        let mut here = threads(&[0, 1, 2]);
        let episodes: Vec<_> =
            here.play(&tickets, Choice::Sample).iter().map(|r| r.obs.clone()).collect();
        let first = untimed(here.go_on(&order(1)));
        let (between, second) = (here.capture().unwrap(), untimed(here.go_on(&order(2))));
        for links in [1, 2, 4] {
            let mut there = remote(links, 3, 100);
            let played = there.play(&tickets, Choice::Sample);
            assert!(played.iter().map(|r| r.obs.clone()).eq(episodes.iter().cloned()), "{links}");
            assert_eq!(untimed(there.go_on(&order(1))), first);
            assert_eq!(there.capture().as_ref(), Ok(&between));
            assert_eq!(untimed(there.go_on(&order(2))), second);
            // Back to where they were.
            assert_eq!(there.restore(&between), Ok(vec![]));
            assert_eq!(untimed(there.go_on(&order(2))), second);
        }
    }

    #[test]
    fn whoever_is_lost_is_followed_by_one_who_plays_the_same() {
        let actors = [actor(7), actor(8)];
        let tickets: Vec<Ticket> =
            (0..5).map(|i| Ticket { actor: &actors[0], key: [1, 2, 3, i] }).collect();
        let played = |stage: &mut dyn Stage| {
            let mut all = Vec::new();
            for generation in 0..12 {
                let key = [1, 2, generation];
                let order = Order { actors: &actors, steps: 70, costs: 1, key };
                let mut segments = stage.go_on(&order);
                segments.iter_mut().for_each(|segment| segment.times = Default::default());
                let episodes = stage.play(&tickets, Choice::Sample);
                assert!(episodes.iter().all(|rollout| rollout.fault.is_none()));
                let episodes: Vec<_> = episodes.into_iter().map(|rollout| rollout.obs).collect();
                all.push((segments, episodes, stage.capture().unwrap()));
            }
            all
        };
        let expected = played(&mut threads(&[0, 1, 2]));
        // Lost at every kind of request, before the first one, too.
        for calls in 0..6 {
            let link = |i| {
                let anew = move || threads(&share(i, 2, 3).collect::<Vec<_>>());
                Box::new(Here { stage: anew(), calls, anew: Some(Box::new(anew)) }) as Box<dyn Link>
            };
            let mut there = Remote::new(threads(&[]).spec().clone(), vec![link(0), link(1)], 3);
            assert!(played(&mut there) == expected, "{calls}");
        }
    }

    #[test]
    fn a_line_that_is_cut_is_a_fault_and_no_more() {
        let actors = [actor(7)];
        let tickets = [Ticket { actor: &actors[0], key: [1; 4] }; 3];
        let order = Order { actors: &actors, steps: 10, costs: 1, key: [1; 3] };
        let cut = Fault::Failed { task: "point-mass".into(), error: "cut".into() };
        let mut there = remote(2, 3, 1);
        let faults: Vec<_> =
            there.play(&tickets, Choice::Mean).into_iter().map(|r| r.fault).collect();
        assert!(faults.contains(&Some(cut.clone())), "{faults:?}");
        let segments = there.go_on(&order);
        assert!(segments.iter().all(|s| s.fault == Some(cut.clone()) && s.batch.rows() == 10));
        let stored = threads(&[0, 1, 2]).capture().unwrap();
        assert_eq!(there.capture(), Err("cut".into()));
        assert_eq!(there.restore(&stored), Err("cut".into()));
        assert_eq!(serve(&mut threads(&[]), b"nonsense"), None);
    }
}
