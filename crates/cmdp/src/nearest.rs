//! "Did you mean": the known names closest to one that is not known.

/// The names among `known` that resemble `name`, best first; none when nothing comes close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const ALIKE: f64 = 0.75;
    let name = name.to_lowercase();
    let score = |known: &str| match !name.is_empty() && known.contains(&name) {
        true => 1.0,
        false => strsim::jaro_winkler(&name, &known.to_lowercase()),
    };
    let mut scored: Vec<(f64, &str)> = known.into_iter().map(|k| (score(k), k)).collect();
    scored.retain(|(score, _)| *score >= ALIKE);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROBOTS: [&str; 5] = ["ant", "half-cheetah", "walker2d", "hopper", "swimmer"];

    #[test]
    fn a_slip_finds_the_name_meant() {
        for (typed, meant) in
            [("hoper", "hopper"), ("Walker", "walker2d"), ("cheetah", "half-cheetah")]
        {
            assert_eq!(nearest(typed, ROBOTS).first(), Some(&meant), "{typed}");
        }
    }

    #[test]
    fn nothing_alike_suggests_nothing() {
        assert!(nearest("zzz", ROBOTS).is_empty());
        assert!(nearest("", ROBOTS).is_empty());
    }
}
