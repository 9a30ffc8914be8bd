use super::*;

fn shares(values: &[Option<(f64, f64)>], played: &[u64], episodes: usize) -> Shares {
    let outcome = |(reward, cost)| Outcome { reward, cost: vec![cost] };
    let values = values.iter().map(|value| value.map(outcome)).collect();
    Shares { values, played: played.to_vec(), ..Shares::new(played.len(), episodes) }
}

#[test]
fn scores_are_values_and_curiosity_by_hand() {
    assert_eq!(Shares::new(3, 6).next, [0, 1, 2, 0, 1, 2]);
    // Above the least 8, 0, 0; played 2, 1, 0 of 3.
    let scores = shares(&[Some((12.0, 0.0)), Some((4.0, 0.0)), None], &[2, 1, 0], 6).scores(0.9);
    let ln3 = 3f64.ln();
    let hand = [8.0 / 8.1 + 0.9 * (ln3 / 2.0).sqrt(), 0.9 * ln3.sqrt(), 0.9 * ln3.sqrt()];
    for (ours, hand) in scores.iter().zip(hand) {
        assert!((ours - hand).abs() < 1e-12, "{scores:?}");
    }
}

#[test]
fn episodes_are_dealt_out_in_proportion_to_the_scores() {
    let values = [3.0, 1.0, 2.0].map(|reward| Some((reward, 0.0)));
    let mut shares = shares(&values, &[4, 4, 4], 30_000);
    let scores = shares.scores(0.5);
    shares.deal(0.5, &mut cmdp::rng([8; 4]));
    for (learner, score) in scores.iter().enumerate() {
        let count = shares.next.iter().filter(|next| **next == learner).count() as f64;
        let expected = 30_000.0 * score / scores.iter().sum::<f64>();
        assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{count} {expected}");
    }
}

#[test]
fn the_ranking_says_who_leads() {
    let constraints: Vec<Constraint> = vec!["mean(force)<=0.4".parse().unwrap()];
    let values = [None, Some((9.0, 0.5)), Some((5.0, 0.3)), Some((7.0, 0.3))];
    let mut shares = shares(&values, &[0, 1, 1, 1], 1);
    let mut lead = |ranking: Ranking| {
        shares.rank(ranking, &constraints, &mut cmdp::rng([1; 4]));
        shares.leader
    };
    assert_eq!([lead(Ranking::Reward), lead(Ranking::FeasibilityFirst)], [1, 3]);
}
