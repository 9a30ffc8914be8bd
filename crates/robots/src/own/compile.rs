//! Expressions become a program for a model: names are looked up, lengths checked, and what is computed twice is computed
//! once. Components and ranges are spans within spans.

use std::collections::HashMap;

use cmdp::nearest;

use super::expression::{Kind, Node, Slice, Wrong};
use super::program::{Binary, FOLDS, Fold, Op, Program, Span, UNARY, Unary, functions};

/// What measured quantities an expression may name.
pub trait Quantities {
    /// A quantity in the engine's terms.
    type Source: Copy + Eq + std::hash::Hash;

    /// The quantity that a path begins with, how many numbers it has, and how many of the names it took.
    fn find(&self, path: &[(String, usize)]) -> Result<(Self::Source, usize, usize), Wrong>;

    /// The names a path may begin with.
    fn families(&self) -> Vec<&str>;

    /// Seconds of a step.
    fn dt(&self) -> f64;
}

/// Expressions in the making.
pub struct Compiler<'a, Q: Quantities> {
    quantities: &'a Q,
    names: Vec<(String, Span)>,
    known: HashMap<Op<Q::Source>, Span>,
    ops: Vec<(Op<Q::Source>, Span)>,
    /// Spans that are remembered from step to step.
    kept: Vec<Span>,
    size: usize,
    /// Whether what is compiled stands within `before`.
    within: bool,
}

/// More numbers than any robot has.
const MOST: usize = 1_000_000;

impl<'a, Q: Quantities> Compiler<'a, Q> {
    pub fn new(quantities: &'a Q) -> Self {
        Self {
            quantities,
            names: Vec::new(),
            known: HashMap::new(),
            ops: Vec::new(),
            kept: Vec::new(),
            size: 0,
            within: false,
        }
    }

    /// Gives a value a name, which expressions after it may use.
    pub fn name(&mut self, name: &str, span: Span) {
        self.names.push((name.into(), span));
    }

    /// Whether a name is taken.
    pub fn knows(&self, name: &str) -> bool {
        self.names.iter().any(|(known, _)| known == name)
            || self.quantities.families().contains(&name)
    }

    pub fn finish(self) -> Program<Q::Source> {
        Program { ops: self.ops, kept: self.kept, size: self.size }
    }

    /// A value of one number.
    pub fn scalar(&mut self, node: &Node) -> Result<Span, Wrong> {
        let span = self.value(node)?;
        match span.len {
            1 => Ok(span),
            len => Err(Wrong::new(
                node.at,
                format!(
                    "has {len} numbers; expected one, as sum(), mean(), norm() or [0] make of it"
                ),
            )),
        }
    }

    /// A value of any length.
    pub fn value(&mut self, node: &Node) -> Result<Span, Wrong> {
        match &node.kind {
            Kind::Number(x) => Ok(self.number(*x)),
            Kind::Path(path) => self.path(path),
            Kind::List(parts) => {
                let parts: Result<Vec<Span>, Wrong> =
                    parts.iter().map(|part| self.value(part)).collect();
                self.join(parts?, node.at)
            }
            Kind::Prefix(operator, inner) => {
                let span = self.value(inner)?;
                let unary = if *operator == "-" { Unary::Minus } else { Unary::Not };
                Ok(self.map(unary, span))
            }
            Kind::Infix(operator, left, right) => self.infix(operator, left, right, node.at),
            Kind::Index(inner, from, slice) => self.index(inner, *from, *slice, node.at),
            Kind::Call(name, arguments) => self.call(name, arguments, node.at),
        }
    }

    fn push(&mut self, op: Op<Q::Source>, len: usize) -> Span {
        if let Some(span) = self.known.get(&op) {
            return *span;
        }
        let span = Span { start: self.size, len };
        self.size += len;
        self.known.insert(op.clone(), span);
        self.ops.push((op, span));
        span
    }

    fn number(&mut self, x: f64) -> Span {
        self.push(Op::Number(x.to_bits()), 1)
    }

    fn map(&mut self, unary: Unary, span: Span) -> Span {
        self.push(Op::Map(unary, span), span.len)
    }

    fn fold(&mut self, fold: Fold, span: Span) -> Span {
        self.push(Op::Fold(fold, span), 1)
    }

    fn join(&mut self, parts: Vec<Span>, at: usize) -> Result<Span, Wrong> {
        let len = parts.iter().map(|span| span.len).sum();
        if !(1..=MOST).contains(&(len + self.size)) || len == 0 {
            return Err(Wrong::new(at, format!("has {len} numbers; expected 1 to {MOST}")));
        }
        Ok(self.push(Op::Join(parts), len))
    }

    /// One length for all: that of those with more than one number.
    fn common(spans: &[Span], of: &str, at: usize) -> Result<usize, Wrong> {
        let mut lengths = spans.iter().map(|span| span.len).filter(|len| *len != 1);
        let first = lengths.next().unwrap_or(1);
        match lengths.find(|len| *len != first) {
            None => Ok(first),
            Some(other) => Err(Wrong::new(
                at,
                format!("{of} of {first} and of {other} numbers; expected as many, or one"),
            )),
        }
    }

    fn combine(&mut self, binary: Binary, pair: [Span; 2], at: usize) -> Result<Span, Wrong> {
        let len = Self::common(&pair, "values", at)?;
        Ok(self.push(Op::Combine(binary, pair[0], pair[1]), len))
    }

    fn infix(&mut self, operator: &str, a: &Node, b: &Node, at: usize) -> Result<Span, Wrong> {
        let binary = match operator {
            "+" => Binary::Add,
            "-" => Binary::Subtract,
            "*" => Binary::Multiply,
            "/" => Binary::Divide,
            "^" => Binary::Power,
            "<" => Binary::Below,
            "<=" => Binary::AtMost,
            ">" => Binary::Above,
            ">=" => Binary::AtLeast,
            "==" => Binary::Equal,
            "!=" => Binary::Unequal,
            "and" => Binary::And,
            _ => Binary::Or,
        };
        let left = self.value(a)?;
        // A square is a product, to the bit and at once.
        if binary == Binary::Power && b.kind == Kind::Number(2.0) {
            return self.combine(Binary::Multiply, [left, left], at);
        }
        let right = self.value(b)?;
        self.combine(binary, [left, right], at)
    }

    fn index(
        &mut self,
        inner: &Node,
        from: Option<usize>,
        slice: Slice,
        at: usize,
    ) -> Result<Span, Wrong> {
        let span = self.value(inner)?;
        let from = from.unwrap_or(0);
        let to = match slice {
            Slice::One => from + 1,
            Slice::To(to) => to,
            Slice::End => span.len,
        };
        if from < to && to <= span.len {
            return Ok(Span { start: span.start + from, len: to - from });
        }
        let len = span.len;
        let got = match slice {
            Slice::One => format!("the number {from} (from 0 on)"),
            _ => format!("the range {from} to {to}"),
        };
        Err(Wrong::new(at, format!("{got} of a value of {len} numbers")))
    }

    fn path(&mut self, path: &[(String, usize)]) -> Result<Span, Wrong> {
        let (first, at) = &path[0];
        let named = self.names.iter().find(|(name, _)| name == first).map(|(_, span)| *span);
        let (span, used) = match (&first[..], named) {
            (_, Some(span)) => (span, 1),
            ("pi", _) => (self.number(std::f64::consts::PI), 1),
            ("dt", _) => (self.number(self.quantities.dt()), 1),
            _ if self.quantities.families().contains(&&first[..]) => {
                let (source, len, used) = self.quantities.find(path)?;
                (self.push(Op::Read(source, len), len), used)
            }
            _ => return Err(self.unknown(first, *at)),
        };
        let mut span = span;
        for (component, at) in &path[used..] {
            let index = ["x", "y", "z", "w"].iter().position(|c| c == component);
            match index.filter(|i| *i < span.len && span.len > 1) {
                Some(i) => span = Span { start: span.start + i, len: 1 },
                None => {
                    let has = match span.len {
                        1 => "is one number".to_owned(),
                        len @ 2..=4 => format!("has {}", &["x", "y", "z", "w"][..len].join(", ")),
                        len => format!("has {len} numbers, x to w and [0] to [{}]", len - 1),
                    };
                    let whole: Vec<&str> = path.iter().map(|(name, _)| &name[..]).collect();
                    let whole = whole[..used].join(".");
                    return Err(Wrong::new(*at, format!("no '{component}' here: {whole} {has}")));
                }
            }
        }
        Ok(span)
    }

    fn unknown(&self, name: &str, at: usize) -> Wrong {
        let names = self.names.iter().map(|(name, _)| &name[..]);
        let known: Vec<&str> =
            names.chain(self.quantities.families()).chain(["pi", "dt"]).collect();
        let hint = match nearest(name, known.iter().copied()).first() {
            Some(best) => format!("did you mean '{best}'?"),
            None if functions().contains(&name) => format!("expected {name}(...)"),
            None => format!("expected one of: {}", known.join(", ")),
        };
        Wrong::new(at, format!("unknown name '{name}': {hint}"))
    }

    fn call(&mut self, name: &str, arguments: &[Node], at: usize) -> Result<Span, Wrong> {
        let expects = |count: usize| match arguments.len() == count {
            true => Ok(()),
            false => {
                let got = arguments.len();
                let plural = if count == 1 { "" } else { "s" };
                let message = format!("{name}() takes {count} argument{plural}, got {got}");
                Err(Wrong::new(at, message))
            }
        };
        let unary = UNARY.iter().find(|(known, _)| *known == name);
        let fold = FOLDS.iter().find(|(known, _)| *known == name);
        if let Some((_, unary)) = unary {
            expects(1)?;
            let span = self.value(&arguments[0])?;
            return Ok(self.map(*unary, span));
        }
        if let (Some((_, fold)), true) = (fold, arguments.len() == 1) {
            let span = self.value(&arguments[0])?;
            return Ok(self.fold(*fold, span));
        }
        let binary = match name {
            "min" => Some(Binary::Least),
            "max" => Some(Binary::Most),
            "atan2" => Some(Binary::Atan2),
            "dot" => Some(Binary::Multiply),
            _ => None,
        };
        if let Some(binary) = binary {
            expects(2)?;
            let pair = [self.value(&arguments[0])?, self.value(&arguments[1])?];
            let span = self.combine(binary, pair, at)?;
            return Ok(if name == "dot" { self.fold(Fold::Sum, span) } else { span });
        }
        match name {
            "clip" => {
                expects(3)?;
                let [x, low, high] = self.three(arguments)?;
                let least = self.combine(Binary::Most, [x, low], at)?;
                self.combine(Binary::Least, [least, high], at)
            }
            "where" => {
                expects(3)?;
                let spans = self.three(arguments)?;
                let len = Self::common(&spans, "values", at)?;
                let [condition, yes, no] = spans;
                Ok(self.push(Op::Where(condition, yes, no), len))
            }
            "before" | "rate" => {
                expects(1)?;
                if std::mem::replace(&mut self.within, true) {
                    let message = format!("{name}() within before() or rate()");
                    return Err(Wrong::new(at, message));
                }
                let now = self.value(&arguments[0]);
                self.within = false;
                let now = now?;
                if !self.kept.contains(&now) {
                    self.kept.push(now);
                }
                let before = self.push(Op::Before(now), now.len);
                if name == "before" {
                    return Ok(before);
                }
                let change = self.combine(Binary::Subtract, [now, before], at)?;
                let dt = self.number(self.quantities.dt());
                self.combine(Binary::Divide, [change, dt], at)
            }
            _ if fold.is_some() => Err(expects(1).expect_err("one was taken above")),
            _ => {
                let known = functions();
                let hint = match nearest(name, known.iter().copied()).first() {
                    Some(best) => format!("did you mean {best}()?"),
                    None => format!("expected one of: {}", known.join(", ")),
                };
                Err(Wrong::new(at, format!("unknown function '{name}': {hint}")))
            }
        }
    }

    fn three(&mut self, arguments: &[Node]) -> Result<[Span; 3], Wrong> {
        Ok([self.value(&arguments[0])?, self.value(&arguments[1])?, self.value(&arguments[2])?])
    }
}

#[cfg(test)]
mod tests;
