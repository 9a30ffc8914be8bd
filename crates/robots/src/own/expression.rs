//! Expressions over what a robot measures, as text: `-0.1 * sum(action^2)`, `pos.torso.z < 0.3 or time > 5`.
//!
//! ```text
//! or > and > not > comparison > sum > product > minus > power > what is indexed
//! ```
//!
//! This is what is written; what it means for a model is `program.rs`.

/// The deepest nesting: a parser of recursive functions needs some end.
const DEEPEST: usize = 100;
/// The longest text.
const LONGEST: usize = 4000;

/// A part of an expression, and where it stands: bytes from its beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub kind: Kind,
    pub at: usize,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Number(f64),
    /// `pos.torso.x`: every name with its place.
    Path(Vec<(String, usize)>),
    Call(String, Vec<Node>),
    /// `[a, b]`
    List(Vec<Node>),
    /// `-a`, `not a`
    Prefix(&'static str, Box<Node>),
    Infix(&'static str, Box<Node>, Box<Node>),
    /// `a[from]` where there is no colon, `a[from:to]`, `a[from:]`, `a[:to]`.
    Index(Box<Node>, Option<usize>, Slice),
}

/// Where an index ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// There is no colon.
    One,
    To(usize),
    End,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub at: usize,
    pub message: String,
}

impl Wrong {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Text(String),
    Symbol(&'static str),
    End,
}

/// The longer first, so that `<=` is not taken for `<`.
const SYMBOLS: [&str; 21] = [
    "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "^", "(", ")", "[", "]", ",", ".", ":",
    "&&", "||", "=",
];

impl Token {
    fn told(&self) -> String {
        match self {
            Self::Number(x) => format!("the number {x}"),
            Self::Name(name) => format!("'{name}'"),
            Self::Text(text) => format!("the text \"{text}\""),
            Self::Symbol(symbol) => format!("'{symbol}'"),
            Self::End => "the end".into(),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Wrong> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let begins = at;
        let digit = |c: char| c.is_ascii_digit();
        let pointed = first == '.' && rest[1..].starts_with(digit);
        let token = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if digit(first) || pointed {
            let (number, length) = number(rest, begins)?;
            at += length;
            Token::Number(number)
        } else if first.is_alphabetic() || first == '_' {
            let name = |c: char| !(c.is_alphanumeric() || c == '_');
            at += rest.find(name).unwrap_or(rest.len());
            Token::Name(text[begins..at].into())
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first);
            let end = end.ok_or_else(|| Wrong::new(begins, format!("expected another {first}")))?;
            at += end + 2;
            Token::Text(rest[1..=end].into())
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let unknown = || Wrong::new(begins, format!("'{first}' has no meaning here"));
            let symbol = *symbol.ok_or_else(unknown)?;
            at += symbol.len();
            let meant = match symbol {
                "&&" => "and",
                "||" => "or",
                "=" => "==",
                other => other,
            };
            if meant != symbol {
                return Err(Wrong::new(begins, format!("expected '{meant}' for '{symbol}'")));
            }
            Token::Symbol(symbol)
        };
        tokens.push((token, begins));
        // A point after a name is part of a path, whatever follows.
        if matches!(tokens.last(), Some((Token::Name(_) | Token::Text(_), _)))
            && text[at..].starts_with('.')
        {
            tokens.push((Token::Symbol("."), at));
            at += 1;
        }
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

/// The number a text begins with, and its length.
fn number(text: &str, at: usize) -> Result<(f64, usize), Wrong> {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let number: Option<f64> = text[..end].parse().ok().filter(|x: &f64| x.is_finite());
    let wrong = || Wrong::new(at, format!("'{}' is no number that can be held", &text[..end]));
    Ok((number.ok_or_else(wrong)?, end))
}

/// Reads an expression.
pub fn parse(text: &str) -> Result<Node, Wrong> {
    // What is read one after the other is nested as deep once it is a tree.
    if text.len() > LONGEST {
        return Err(Wrong::new(
            0,
            format!("longer than {LONGEST} letters: expected names for its parts under [let]"),
        ));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Err(Wrong::new(0, "expected an expression, got nothing"));
    }
    let node = parser.any()?;
    match parser.peek() {
        Token::End => Ok(node),
        other => {
            Err(parser.wrong(format!("expected an operator or the end, got {}", other.told())))
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> usize {
        self.tokens[self.next].1
    }

    fn wrong(&self, message: String) -> Wrong {
        Wrong::new(self.at(), message)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes one of these symbols or words, if it comes next.
    fn one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let found = words.iter().find(|word| match self.peek() {
            Token::Symbol(symbol) => symbol == *word,
            Token::Name(name) => name == *word,
            _ => false,
        });
        found.inspect(|_| _ = self.take()).copied()
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), Wrong> {
        match self.one_of(&[symbol]) {
            Some(_) => Ok(()),
            None => Err(self.wrong(format!("expected '{symbol}', got {}", self.peek().told()))),
        }
    }

    fn any(&mut self) -> Result<Node, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("nested more than {DEEPEST} deep")));
        }
        let node = self.left(&["or"], |parser| parser.left(&["and"], |parser| parser.not()));
        self.depth -= 1;
        node
    }

    /// Operands between operators of one rank, from the left.
    fn left(
        &mut self,
        operators: &[&'static str],
        operand: impl Fn(&mut Self) -> Result<Node, Wrong>,
    ) -> Result<Node, Wrong> {
        let mut node = operand(self)?;
        loop {
            let at = self.at();
            let Some(operator) = self.one_of(operators) else { return Ok(node) };
            let kind = Kind::Infix(operator, Box::new(node), Box::new(operand(self)?));
            node = Node { kind, at };
        }
    }

    fn not(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        if self.one_of(&["not"]).is_some() {
            return self.nested(|parser| {
                Ok(Node { kind: Kind::Prefix("not", Box::new(parser.not()?)), at })
            });
        }
        let node = self.sum()?;
        let at = self.at();
        let comparison = ["<=", ">=", "==", "!=", "<", ">"];
        let Some(operator) = self.one_of(&comparison) else { return Ok(node) };
        let kind = Kind::Infix(operator, Box::new(node), Box::new(self.sum()?));
        let node = Node { kind, at };
        match self.one_of(&comparison) {
            None => Ok(node),
            Some(again) => Err(self.wrong(format!(
                "one comparison after another: expected 'a {operator} b and b {again} c'"
            ))),
        }
    }

    /// One level deeper.
    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Node, Wrong>,
    ) -> Result<Node, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("nested more than {DEEPEST} deep")));
        }
        let node = inner(self);
        self.depth -= 1;
        node
    }

    fn sum(&mut self) -> Result<Node, Wrong> {
        self.left(&["+", "-"], |parser| parser.left(&["*", "/"], Self::minus))
    }

    fn minus(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        match self.one_of(&["-", "+"]) {
            Some("-") => self.nested(|parser| {
                Ok(Node { kind: Kind::Prefix("-", Box::new(parser.minus()?)), at })
            }),
            Some(_) => self.nested(Self::minus),
            None => self.power(),
        }
    }

    /// From the right, and stronger than a minus before it: `-a^2` is `-(a^2)`, `2^-1` a half.
    fn power(&mut self) -> Result<Node, Wrong> {
        let base = self.indexed()?;
        let at = self.at();
        if self.one_of(&["^"]).is_none() {
            return Ok(base);
        }
        let exponent = self.nested(Self::minus)?;
        Ok(Node { kind: Kind::Infix("^", Box::new(base), Box::new(exponent)), at })
    }

    fn indexed(&mut self) -> Result<Node, Wrong> {
        let mut node = self.primary()?;
        loop {
            let at = self.at();
            if self.one_of(&["["]).is_some() {
                let (from, slice) = self.index()?;
                node = Node { kind: Kind::Index(Box::new(node), from, slice), at };
            } else if self.one_of(&["."]).is_some() {
                let component = match self.take() {
                    Token::Name(name) => ["x", "y", "z", "w"].iter().position(|c| *c == name),
                    _ => None,
                };
                let wrong = || Wrong::new(at, "expected x, y, z or w after '.'");
                let from = Some(component.ok_or_else(wrong)?);
                node = Node { kind: Kind::Index(Box::new(node), from, Slice::One), at };
            } else {
                return Ok(node);
            }
        }
    }

    /// What stands between brackets, with the closing one.
    fn index(&mut self) -> Result<(Option<usize>, Slice), Wrong> {
        let from = self.whole()?;
        let slice = match self.one_of(&[":"]) {
            None => Slice::One,
            Some(_) => self.whole()?.map_or(Slice::End, Slice::To),
        };
        if from.is_none() && slice == Slice::One {
            return Err(self.wrong(format!(
                "expected a whole number or a range, as in [0] or [2:5], got {}",
                self.peek().told()
            )));
        }
        self.expect("]")?;
        Ok((from, slice))
    }

    fn whole(&mut self) -> Result<Option<usize>, Wrong> {
        match *self.peek() {
            Token::Number(x) if x.fract() == 0.0 && x < 1e9 => {
                self.take();
                Ok(Some(x as usize))
            }
            Token::Number(x) => Err(self.wrong(format!("expected a whole number, got {x}"))),
            _ => Ok(None),
        }
    }

    fn primary(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        match self.peek().clone() {
            Token::Number(x) => {
                self.take();
                Ok(Node { kind: Kind::Number(x), at })
            }
            Token::Name(name) if ["and", "or", "not"].contains(&&name[..]) => {
                Err(self.wrong(format!("expected a value, got '{name}'")))
            }
            Token::Name(name) => {
                self.take();
                if self.one_of(&["("]).is_some() {
                    let arguments = self.list(")")?;
                    return Ok(Node { kind: Kind::Call(name, arguments), at });
                }
                let mut path = vec![(name, at)];
                while self.one_of(&["."]).is_some() {
                    let at = self.at();
                    match self.take() {
                        Token::Name(name) | Token::Text(name) => path.push((name, at)),
                        other => {
                            let got = other.told();
                            let message = format!("expected a name after '.', got {got}");
                            return Err(Wrong::new(at, message));
                        }
                    }
                }
                Ok(Node { kind: Kind::Path(path), at })
            }
            Token::Symbol("(") => {
                self.take();
                let node = self.any()?;
                self.expect(")")?;
                Ok(node)
            }
            Token::Symbol("[") => {
                self.take();
                Ok(Node { kind: Kind::List(self.list("]")?), at })
            }
            other => Err(self.wrong(format!("expected a value, got {}", other.told()))),
        }
    }

    /// Expressions with commas between them, and what closes them.
    fn list(&mut self, end: &'static str) -> Result<Vec<Node>, Wrong> {
        let mut nodes = Vec::new();
        if self.one_of(&[end]).is_some() {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.any()?);
            if self.one_of(&[","]).is_none() {
                self.expect(end)?;
                return Ok(nodes);
            }
        }
    }
}
