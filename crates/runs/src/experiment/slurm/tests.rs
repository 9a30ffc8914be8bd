use super::*;

fn arrays() -> Vec<Array> {
    vec![
        Array { job: 12, first: 0, runs: (0..4).collect() },
        Array { job: 15, first: 1000, runs: vec![1001, 1003] },
    ]
}

#[test]
fn what_slurm_says_is_told_by_run() {
    // As squeue of Slurm 22.05 writes it, and as sacct does.
    let queue = "12_0|RUNNING|node1|None\n12_3|PENDING||Resources\n15_3|PENDING||BeginTime\n\
                 15_1|COMPLETING|node2|None\n7_1|RUNNING|node1|None\n";
    let accounted = "12_0|FAILED|node1\n12_1|COMPLETED|node1\n12_2|CANCELLED by 1000|None assigned\n\
                     12_[3-5%2]|PENDING|None assigned\n15_1|OUT_OF_MEMORY|node2\n";
    let mut said = HashMap::new();
    hear(accounted, &arrays(), &mut said);
    assert_eq!(said[&1001], Says::Ended(Some("out of memory".into())));
    hear(queue, &arrays(), &mut said);
    let expected = [
        (0, Says::Running("node1".into())),
        (1, Says::Ended(None)),
        (2, Says::Ended(None)),
        (3, Says::Waiting("Resources".into())),
        (1001, Says::Running("node2".into())),
        (1003, Says::Waiting("BeginTime".into())),
    ];
    assert_eq!(said, expected.into());
    assert_eq!(says("TIMEOUT", "n", String::new()), Says::Ended(Some("timeout".into())));
    assert_eq!(says("NODE_FAIL", "n", String::new()), Says::Ended(Some("node fail".into())));
}

#[test]
fn arrays_are_no_longer_than_slurm_takes() {
    assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    let all: Vec<usize> = (0..10_000).collect();
    let arrays = pieces(&all, 1001);
    assert_eq!(arrays.len(), 10);
    assert!(
        arrays
            .iter()
            .all(|(first, runs)| runs.iter().all(|run| (0..1001).contains(&(run - first))))
    );
    assert_eq!(arrays.iter().flat_map(|(_, runs)| runs).copied().collect::<Vec<_>>(), all);
    // Runs that were failed, far apart.
    assert_eq!(pieces(&[3, 999, 2002], 1001), [(0, vec![3, 999]), (2002, vec![2002])]);
}

#[test]
fn times_are_read_as_slurm_does() {
    let day = 86_400;
    for (text, expected) in [
        ("90", 5400),
        ("1:30", 90),
        ("2:00:05", 7205),
        ("1-6", day + 6 * 3600),
        ("2-00:30", 2 * day + 1800),
        ("1-02:03:04", day + 7384),
    ] {
        assert_eq!(seconds(text), Some(expected), "{text}");
    }
    assert_eq!(["UNLIMITED", "", "1:2:3:4"].map(seconds), [None; 3]);
    let ahead = |option: &str| super::ahead(&[option.to_owned()]);
    assert_eq!([ahead("--time=1-0"), ahead("-t2"), ahead("--qos=high")], [120, 30, 120]);
}
