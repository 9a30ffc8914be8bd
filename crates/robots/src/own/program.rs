//! Expressions compiled for a model: a list of operations on one row of numbers, without a branch or a name left.
//!
//! Every value is a span of the row, of a length that is known when it is compiled (`compile.rs`).

/// A value's place in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: usize,
    pub len: usize,
}

impl Span {
    pub fn of<'a>(&self, row: &'a [f64]) -> &'a [f64] {
        &row[self.start..self.start + self.len]
    }
}

/// What is done to values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op<S> {
    /// Its bits.
    Number(u64),
    /// A quantity, and how many numbers of it.
    Read(S, usize),
    /// What the span was at the end of the step before.
    Before(Span),
    Map(Unary, Span),
    Combine(Binary, Span, Span),
    Fold(Fold, Span),
    /// The second where the first is not 0, else the third.
    Where(Span, Span, Span),
    Join(Vec<Span>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    Minus,
    Not,
    Abs,
    Sign,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Tanh,
    Floor,
    Single,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
    Unequal,
    And,
    Or,
    Least,
    Most,
    Atan2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fold {
    Sum,
    Mean,
    Norm,
    Least,
    Most,
    Any,
    All,
}

/// Functions of one value, number by number.
pub const UNARY: [(&str, Unary); 14] = [
    ("abs", Unary::Abs),
    ("sign", Unary::Sign),
    ("sqrt", Unary::Sqrt),
    ("exp", Unary::Exp),
    ("log", Unary::Log),
    ("sin", Unary::Sin),
    ("cos", Unary::Cos),
    ("tan", Unary::Tan),
    ("asin", Unary::Asin),
    ("acos", Unary::Acos),
    ("atan", Unary::Atan),
    ("tanh", Unary::Tanh),
    ("floor", Unary::Floor),
    ("f32", Unary::Single),
];

/// Functions that make one number of a value.
pub const FOLDS: [(&str, Fold); 7] = [
    ("sum", Fold::Sum),
    ("mean", Fold::Mean),
    ("norm", Fold::Norm),
    ("min", Fold::Least),
    ("max", Fold::Most),
    ("any", Fold::Any),
    ("all", Fold::All),
];

/// The others.
const OTHERS: [&str; 6] = ["clip", "where", "dot", "atan2", "before", "rate"];

/// The names of all functions.
pub fn functions() -> Vec<&'static str> {
    let unary = UNARY.iter().map(|(name, _)| *name);
    unary.chain(FOLDS.iter().map(|(name, _)| *name)).chain(OTHERS).collect()
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

impl Unary {
    fn of(self, x: f64) -> f64 {
        match self {
            Self::Minus => -x,
            Self::Not => truth(x == 0.0),
            Self::Abs => x.abs(),
            Self::Sign => truth(x > 0.0) - truth(x < 0.0),
            Self::Sqrt => x.sqrt(),
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Asin => x.asin(),
            Self::Acos => x.acos(),
            Self::Atan => x.atan(),
            Self::Tanh => x.tanh(),
            Self::Floor => x.floor(),
            Self::Single => f64::from(x as f32),
        }
    }
}

impl Binary {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Power => a.powf(b),
            Self::Below => truth(a < b),
            Self::AtMost => truth(a <= b),
            Self::Above => truth(a > b),
            Self::AtLeast => truth(a >= b),
            Self::Equal => truth(a == b),
            Self::Unequal => truth(a != b),
            Self::And => truth(a != 0.0 && b != 0.0),
            Self::Or => truth(a != 0.0 || b != 0.0),
            // What is not a number stays so, where f64::min would hide it.
            Self::Least if a.is_nan() || b.is_nan() => f64::NAN,
            Self::Most if a.is_nan() || b.is_nan() => f64::NAN,
            Self::Least => a.min(b),
            Self::Most => a.max(b),
            Self::Atan2 => a.atan2(b),
        }
    }
}

impl Fold {
    fn of(self, values: &[f64]) -> f64 {
        let fold = |binary: Binary, first: f64| values.iter().fold(first, |a, b| binary.of(a, *b));
        match self {
            Self::Sum => fold(Binary::Add, 0.0),
            Self::Mean => fold(Binary::Add, 0.0) / values.len() as f64,
            Self::Norm => values.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Self::Least => fold(Binary::Least, f64::INFINITY),
            Self::Most => fold(Binary::Most, f64::NEG_INFINITY),
            Self::Any => truth(values.iter().any(|x| *x != 0.0)),
            Self::All => truth(values.iter().all(|x| *x != 0.0)),
        }
    }
}

/// Compiled expressions.
#[derive(Debug, Clone)]
pub struct Program<S> {
    pub ops: Vec<(Op<S>, Span)>,
    /// Spans that are remembered from step to step.
    pub kept: Vec<Span>,
    /// Numbers in the row.
    pub size: usize,
}

impl<S: Copy> Program<S> {
    /// Numbers that are remembered from step to step.
    pub fn remembered(&self) -> usize {
        self.kept.iter().map(|span| span.len).sum()
    }

    /// Computes the row; `read` writes a quantity, `memory` is what [`remember`](Self::remember) wrote last.
    pub fn run(&self, row: &mut [f64], memory: &[f64], mut read: impl FnMut(S, &mut [f64])) {
        for (op, span) in &self.ops {
            let (done, rest) = row.split_at_mut(span.start);
            let to = &mut rest[..span.len];
            let at = |span: &Span, i: usize| done[span.start + if span.len == 1 { 0 } else { i }];
            match op {
                Op::Number(bits) => to[0] = f64::from_bits(*bits),
                Op::Read(source, _) => read(*source, to),
                Op::Before(now) => {
                    let kept = self.kept.iter().take_while(|span| *span != now);
                    let start: usize = kept.map(|span| span.len).sum();
                    to.copy_from_slice(&memory[start..start + now.len]);
                }
                Op::Map(unary, a) => {
                    to.iter_mut().zip(a.of(done)).for_each(|(to, x)| *to = unary.of(*x));
                }
                Op::Combine(binary, a, b) => {
                    to.iter_mut()
                        .enumerate()
                        .for_each(|(i, to)| *to = binary.of(at(a, i), at(b, i)));
                }
                Op::Fold(fold, a) => to[0] = fold.of(a.of(done)),
                Op::Where(condition, yes, no) => {
                    to.iter_mut().enumerate().for_each(|(i, to)| {
                        *to = if at(condition, i) != 0.0 { at(yes, i) } else { at(no, i) };
                    });
                }
                Op::Join(parts) => {
                    let numbers = parts.iter().flat_map(|part| part.of(done));
                    to.iter_mut().zip(numbers).for_each(|(to, x)| *to = *x);
                }
            }
        }
    }

    /// Takes over from the row what the next step will want to know of this one.
    pub fn remember(&self, row: &[f64], memory: &mut [f64]) {
        let numbers = self.kept.iter().flat_map(|span| span.of(row));
        memory.iter_mut().zip(numbers).for_each(|(to, x)| *to = *x);
    }
}
