use super::super::expression::parse;
use super::*;

/// A robot with a few numbers.
struct Toy;

impl Quantities for Toy {
    type Source = usize;

    fn find(&self, path: &[(String, usize)]) -> Result<(usize, usize, usize), Wrong> {
        match (&path[0].0[..], path.get(1).map(|(name, _)| &name[..])) {
            ("qpos", None) => Ok((0, 4, 1)),
            ("qpos", Some("knee")) => Ok((2, 1, 2)),
            ("pos", Some("head")) => Ok((1, 3, 2)),
            (_, Some(name)) => Err(Wrong::new(path[1].1, format!("no '{name}'"))),
            _ => Err(Wrong::new(path[0].1, "expected a name")),
        }
    }

    fn families(&self) -> Vec<&str> {
        vec!["qpos", "pos"]
    }

    fn dt(&self) -> f64 {
        0.5
    }
}

const NUMBERS: [f64; 4] = [1.0, -2.0, 3.0, 0.5];

fn compiled(text: &str) -> Result<(Program<usize>, Span), Wrong> {
    let node = parse(text)?;
    let mut compiler = Compiler::new(&Toy);
    let span = compiler.value(&node)?;
    Ok((compiler.finish(), span))
}

/// What an expression comes to in the last of so many steps, in each of which all numbers grow by one.
fn after(text: &str, steps: usize) -> Vec<f64> {
    let (program, span) = compiled(text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
    let mut row = vec![f64::NAN; program.size];
    let mut memory = vec![0.0; program.remembered()];
    for step in 0..steps {
        program.run(&mut row, &memory, |from, to| {
            let numbers = NUMBERS[from..].iter().map(|x| x + step as f64);
            to.iter_mut().zip(numbers).for_each(|(to, x)| *to = x);
        });
        program.remember(&row, &mut memory);
    }
    span.of(&row).to_vec()
}

fn value(text: &str) -> Vec<f64> {
    after(text, 1)
}

#[test]
fn expressions_by_hand() {
    for (text, expected) in [
        ("1 + 2 * 3 ^ 2", &[19.0][..]),
        ("-2 ^ 2", &[-4.0]),
        ("2 ^ -1", &[0.5]),
        ("2 ^ 3 ^ 2", &[512.0]),
        ("7 - 2 - 1", &[4.0]),
        ("8 / 2 / 2", &[2.0]),
        ("1.5e-1 + .25", &[0.4]),
        ("qpos", &NUMBERS),
        ("qpos * 2 - 1", &[1.0, -5.0, 5.0, 0.0]),
        ("qpos.knee", &[3.0]),
        ("qpos . 'knee'", &[3.0]),
        ("qpos[1:]", &[-2.0, 3.0, 0.5]),
        ("qpos[:2]", &[1.0, -2.0]),
        ("qpos[1:3][1]", &[3.0]),
        ("pos.head", &[-2.0, 3.0, 0.5]),
        ("pos.head.z", &[0.5]),
        ("(pos.head + 1).x", &[-1.0]),
        ("[1, qpos.knee, pos.head[:2]]", &[1.0, 3.0, -2.0, 3.0]),
        ("sum(qpos)", &[2.5]),
        ("mean(qpos)", &[0.625]),
        ("norm([3, 4])", &[5.0]),
        ("dot(qpos, qpos)", &[14.25]),
        ("min(qpos)", &[-2.0]),
        ("max(qpos)", &[3.0]),
        ("min(qpos, 0.75)", &[0.75, -2.0, 0.75, 0.5]),
        ("max([1, 2], [2, 1])", &[2.0, 2.0]),
        ("clip(qpos, -1, 1)", &[1.0, -1.0, 1.0, 0.5]),
        ("abs(qpos)", &[1.0, 2.0, 3.0, 0.5]),
        ("sign([-3, 0, 2])", &[-1.0, 0.0, 1.0]),
        ("sqrt(16) + exp(0) + log(1) + floor(1.7)", &[6.0]),
        ("sin(0) + cos(0) + tan(0) + tanh(0)", &[1.0]),
        ("asin(0) + acos(1) + atan(0) + atan2(0, 1)", &[0.0]),
        ("f32(0.1)", &[f64::from(0.1f32)]),
        ("qpos > 0.75", &[1.0, 0.0, 1.0, 0.0]),
        ("1 <= 1 and not 2 < 1", &[1.0]),
        ("1 == 2 or 1 != 2", &[1.0]),
        ("any(qpos < 0) and not all(qpos < 0)", &[1.0]),
        ("where(qpos > 0, qpos, 0)", &[1.0, 0.0, 3.0, 0.5]),
        ("2 * pi", &[std::f64::consts::TAU]),
        ("dt", &[0.5]),
        ("norm(qpos)^2 - sum(qpos^2) < 1e-12", &[1.0]),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    // What is not a number is not hidden.
    assert!(value("min(sqrt(-1), 0)")[0].is_nan() && value("max([0, sqrt(-1)])")[0].is_nan());
}

#[test]
fn what_was_before_and_how_fast_it_changes() {
    // In the third step the numbers have grown by two, since the second by one in half a second.
    assert_eq!(after("qpos.knee", 3), [5.0]);
    assert_eq!(after("before(qpos.knee)", 3), [4.0]);
    assert_eq!(after("before(qpos)[1:]", 3), [-1.0, 4.0, 1.5]);
    assert_eq!(after("rate(qpos.knee)", 3), [2.0]);
    assert_eq!(after("rate(2 * pos.head)", 3), [4.0; 3]);
    assert_eq!(after("rate(qpos.knee) + rate(qpos.knee) - before(pos.head.x)", 3), [5.0]);
}

#[test]
fn what_is_computed_twice_is_computed_once() {
    let count = |text: &str| compiled(text).unwrap().0.ops.len();
    assert_eq!(count("sum(qpos^2)"), 3);
    assert_eq!(count("sum(qpos^2) + sum(qpos^2)"), 4);
    // The same beginning, and yet another length.
    assert_eq!(value("[qpos.knee, qpos]").len(), 5);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, at, message) in [
        ("", 0, "expected an expression, got nothing"),
        ("1 +", 3, "expected a value, got the end"),
        ("1 2", 2, "expected an operator or the end, got the number 2"),
        ("(1", 2, "expected ')', got the end"),
        ("[1, ]", 4, "expected a value, got ']'"),
        ("1 < 2 < 3", 8, "one comparison after another: expected 'a < b and b < c'"),
        ("a = 1", 2, "expected '==' for '='"),
        ("1 && 2", 2, "expected 'and' for '&&'"),
        ("3 $ 4", 2, "'$' has no meaning here"),
        ("1e999", 0, "'1e999' is no number that can be held"),
        ("pos.'head", 4, "expected another '"),
        ("pos.", 4, "expected a name after '.', got the end"),
        ("(1).k", 3, "expected x, y, z or w after '.'"),
        ("qpos[1.5]", 5, "expected a whole number, got 1.5"),
        ("qpos[]", 5, "expected a whole number or a range, as in [0] or [2:5], got ']'"),
        ("qpos[4]", 4, "the number 4 (from 0 on) of a value of 4 numbers"),
        ("qpos[2:9]", 4, "the range 2 to 9 of a value of 4 numbers"),
        ("qpos[2:2]", 4, "the range 2 to 2 of a value of 4 numbers"),
        ("qpos + pos.head", 5, "values of 4 and of 3 numbers; expected as many, or one"),
        ("qps", 0, "unknown name 'qps': did you mean 'qpos'?"),
        ("zzz", 0, "unknown name 'zzz': expected one of: qpos, pos, pi, dt"),
        ("sqrt", 0, "unknown name 'sqrt': expected sqrt(...)"),
        ("sqr(1)", 0, "unknown function 'sqr': did you mean sqrt()?"),
        ("sqrt(1, 2)", 0, "sqrt() takes 1 argument, got 2"),
        ("clip(1)", 0, "clip() takes 3 arguments, got 1"),
        ("pos.tail", 4, "no 'tail'"),
        ("pos.head.w", 9, "no 'w' here: pos.head has x, y, z"),
        ("qpos.knee.x", 10, "no 'x' here: qpos.knee is one number"),
        ("before(rate(qpos))", 7, "rate() within before() or rate()"),
        ("[]", 0, "has 0 numbers; expected 1 to 1000000"),
    ] {
        let wrong = compiled(text).unwrap_err();
        assert_eq!((wrong.at, &wrong.message[..]), (at, message), "{text}");
    }
    for deep in ["(", "-", "not ", "2^", "[", "abs("].map(|part| part.repeat(600)) {
        assert!(compiled(&deep).unwrap_err().message.contains("nested more than 100 deep"));
    }
    let mut compiler = Compiler::new(&Toy);
    let wrong = compiler.scalar(&parse("qpos").unwrap()).unwrap_err();
    assert!(wrong.message.starts_with("has 4 numbers; expected one"), "{wrong:?}");
}

/// Expressions at random, each beside what it must come to, computed as it is put together.
#[test]
fn expressions_at_random_come_to_what_they_say() {
    use rand::RngExt as _;
    fn make(rng: &mut cmdp::Rng, depth: usize) -> (String, f64) {
        if depth == 0 {
            let i = rng.random_range(0..4usize);
            return match rng.random_range(0..2) {
                0 => (format!("qpos[{i}]"), NUMBERS[i]),
                _ => (format!("{i}.25"), i as f64 + 0.25),
            };
        }
        let mut one = || make(rng, depth - 1);
        let ((a, x), (b, y)) = (one(), one());
        match rng.random_range(0..9) {
            0 => (format!("({a} + {b})"), x + y),
            1 => (format!("({a} - {b})"), x - y),
            2 => (format!("({a} * {b})"), x * y),
            3 => (format!("-{a}"), -x),
            4 => (format!("abs({a})"), x.abs()),
            5 => (format!("min({a}, {b})"), x.min(y)),
            6 => (format!("where({a} < {b}, {a}, {b} / 2)"), if x < y { x } else { y / 2.0 }),
            7 => (format!("sum([{a}, {b}])"), 0.0 + x + y),
            _ => (format!("({a} <= {b})"), f64::from(u8::from(x <= y))),
        }
    }
    let mut rng = cmdp::rng([5; 4]);
    for _ in 0..500 {
        let (text, expected) = make(&mut rng, 5);
        assert_eq!(value(&text), [expected], "{text}");
    }
}
