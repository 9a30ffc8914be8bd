//! The TOML of a task: tables that are taken apart key by key, so that whatever is wrong is named with its line and
//! column, and what nobody took is a mistake.

use std::fmt;

use cmdp::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expression::{self, Node, Wrong};

/// Where in a file something is wrong, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Bytes from the beginning.
    pub at: usize,
    pub message: String,
}

/// A file that is being read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What it is called.
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// `file:line:column: what is wrong`
    pub fn told(&self, mistake: &Mistake) -> String {
        let before = &self.text[..self.text.floor_char_boundary(mistake.at)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{}:{line}:{column}: {}", self.name, mistake.message)
    }
}

pub fn mistake(at: usize, message: impl fmt::Display) -> Mistake {
    Mistake { at, message: message.to_string() }
}

/// A table of which one key after the other is taken.
pub struct Section<'a> {
    /// Its keys in front of those within it, as in `start.noise`; empty for the file.
    name: String,
    text: &'a str,
    at: usize,
    entries: Vec<(Spanned<String>, Spanned<DeValue<'a>>)>,
    known: Vec<&'static str>,
}

/// A text, and where in the file it begins.
#[derive(Debug, Clone)]
pub struct Text {
    pub text: String,
    /// Where its quotes begin.
    pub at: usize,
    /// Where its first letter is, if its letters stand in the file as they are.
    inner: Option<usize>,
}

impl Text {
    /// Reads it as an expression.
    pub fn expression(&self) -> Result<Node, Mistake> {
        expression::parse(&self.text).map_err(|wrong| self.wrong(&wrong))
    }

    /// Where something within it is wrong.
    pub fn wrong(&self, wrong: &Wrong) -> Mistake {
        mistake(self.inner.map_or(self.at, |inner| inner + wrong.at), &wrong.message)
    }

    /// The whole of it is.
    pub fn refuse(&self, message: impl fmt::Display) -> Mistake {
        mistake(self.at, message)
    }
}

/// What a value is, in words.
fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn text_of(value: &Spanned<DeValue>, file: &str) -> Option<Text> {
    let DeValue::String(text) = value.get_ref() else { return None };
    let (span, text) = (value.span(), text.to_string());
    let raw = file.get(span.clone()).unwrap_or_default();
    // Where there is no escape, the text stands within its quotes as it is.
    let inner = raw.find(&text[..]).filter(|at| *at <= 4).map(|at| span.start + at);
    Some(Text { text, at: span.start, inner })
}

fn number_of(value: &DeValue) -> Option<f64> {
    let plain = |text: &str| text.replace('_', "").parse().ok();
    let number: Option<f64> = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => plain(integer.as_str()),
        DeValue::Float(float) => plain(float.as_str()),
        _ => None,
    };
    number.filter(|x| x.is_finite())
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn file(text: &'a str) -> Result<Self, Mistake> {
        let parsed = DeTable::parse(text).map_err(|error| {
            mistake(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "))
        })?;
        Ok(Self::of("", text, 0, parsed.into_inner()))
    }

    fn of(name: &str, text: &'a str, at: usize, table: DeTable<'a>) -> Self {
        let entries = table.into_iter().map(|(key, value)| {
            let span = key.span();
            (Spanned::new(span, key.into_inner().to_string()), value)
        });
        Self { name: name.into(), text, at, entries: entries.collect(), known: Vec::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(name, _)| name.get_ref() == key)?;
        Some(self.entries.remove(at).1)
    }

    fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.into() } else { format!("{}.{key}", self.name) }
    }

    fn refuse(&self, key: &str, value: &Spanned<DeValue>, expected: &str) -> Mistake {
        let (key, got) = (self.full(key), kind(value.get_ref()));
        mistake(value.span().start, format!("{key}: expected {expected}, got {got}"))
    }

    /// What is missing.
    pub fn missing(&self, key: &str, expected: &str) -> Mistake {
        let what =
            if self.name.is_empty() { "the file".into() } else { format!("[{}]", self.name) };
        mistake(self.at, format!("{what} has no '{key}': expected {expected}"))
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<Text>, Mistake> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let text = text_of(&value, self.text);
        text.map(Some).ok_or_else(|| self.refuse(key, &value, "a text"))
    }

    /// A whole number within a range.
    pub fn whole(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<usize>, Mistake> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let whole = number_of(value.get_ref()).filter(|x| x.fract() == 0.0 && *x >= 0.0);
        let whole = whole.map(|x| x as usize).filter(|x| range.contains(x));
        whole.map(Some).ok_or_else(|| {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            match number_of(value.get_ref()) {
                Some(x) => {
                    let key = self.full(key);
                    mistake(value.span().start, format!("{key} is {x}; expected {expected}"))
                }
                None => self.refuse(key, &value, &expected),
            }
        })
    }

    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>, Mistake> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = number_of(value.get_ref());
        number.map(Some).ok_or_else(|| self.refuse(key, &value, "a finite number"))
    }

    /// Two numbers, the first not above the second.
    pub fn pair(&mut self, key: &'static str) -> Result<Option<(f64, f64)>, Mistake> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let numbers = value.get_ref().as_array().map(|all| {
            all.iter().map(|one| number_of(one.get_ref())).collect::<Vec<Option<f64>>>()
        });
        match numbers.as_deref() {
            Some([Some(from), Some(to)]) if from <= to && (to - from).is_finite() => {
                Ok(Some((*from, *to)))
            }
            _ => {
                let key = self.full(key);
                let text =
                    format!("{key}: expected two numbers, as in [0.8, 1.2], the lower first");
                Err(mistake(value.span().start, text))
            }
        }
    }

    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<Text>>, Mistake> {
        let Some(value) = self.take(key) else { return Ok(None) };
        if let Some(one) = text_of(&value, self.text) {
            return Ok(Some(vec![one]));
        }
        let texts = value.get_ref().as_array().and_then(|all| {
            all.iter().map(|one| text_of(one, self.text)).collect::<Option<Vec<Text>>>()
        });
        texts.map(Some).ok_or_else(|| self.refuse(key, &value, "a list of texts"))
    }

    /// A section within; empty where there is none.
    pub fn section(&mut self, key: &'static str) -> Result<Self, Mistake> {
        let (text, at) = (self.text, self.at);
        let full = self.full(key);
        let Some(value) = self.take(key) else {
            return Ok(Self::of(&full, text, at, DeTable::new()));
        };
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(_) => {}
            _ => return Err(self.refuse(key, &value, "a table")),
        }
        let DeValue::Table(table) = value.into_inner() else { unreachable!("it was looked at") };
        Ok(Self::of(&full, text, at, table))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything, by names of the file's own, in the order of the file.
    pub fn all(self) -> Vec<Entry<'a>> {
        let (name, text) = (self.name, self.text);
        let entries = self.entries.into_iter().map(|(key, value)| {
            let at = key.span().start;
            Entry { name: key.into_inner(), at, section: name.clone(), text, value }
        });
        entries.collect()
    }

    /// Everything, with tables within tables as one: `qpos.knee = 0.1` is what `"qpos.knee" = 0.1` is. A table with
    /// one of these keys is a value.
    pub fn flat(self, values: &[&str]) -> Vec<Entry<'a>> {
        let mut flat = Vec::new();
        for entry in self.all() {
            let is_value = match entry.value.get_ref() {
                DeValue::Table(table) => {
                    table.iter().any(|(key, _)| values.contains(&&*key.get_ref().to_string()))
                }
                _ => true,
            };
            if is_value {
                flat.push(entry);
                continue;
            }
            let Entry { name, at, section, text, value } = entry;
            let DeValue::Table(table) = value.into_inner() else { unreachable!("it is no value") };
            let inner = Self::of(&section, text, at, table).flat(values);
            flat.extend(
                inner
                    .into_iter()
                    .map(|entry| Entry { name: format!("{name}.{}", entry.name), ..entry }),
            );
        }
        flat
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), Mistake> {
        let Some((key, _)) = self.entries.first() else { return Ok(()) };
        let (at, key) = (key.span().start, key.get_ref());
        let hint = match nearest(key, self.known.iter().copied()).first() {
            Some(best) => format!("did you mean '{best}'?"),
            None => format!("expected one of: {}", self.known.join(", ")),
        };
        Err(mistake(at, format!("unknown key '{}': {hint}", self.full(key))))
    }
}

/// A value with a name of the file's own.
pub struct Entry<'a> {
    pub name: String,
    /// Where its name stands.
    pub at: usize,
    section: String,
    text: &'a str,
    value: Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    /// It, if it is a text.
    pub fn as_text(&self) -> Option<Text> {
        text_of(&self.value, self.text)
    }

    /// It, if it is a number.
    pub fn as_number(&self) -> Option<f64> {
        number_of(self.value.get_ref())
    }

    /// It, if it is a table.
    pub fn into_section(self) -> Option<Section<'a>> {
        let full = format!("{}.{}", self.section, self.name);
        match self.value.into_inner() {
            DeValue::Table(table) => Some(Section::of(&full, self.text, self.at, table)),
            _ => None,
        }
    }

    pub fn refuse(&self, expected: &str) -> Mistake {
        let (section, name, got) = (&self.section, &self.name, kind(self.value.get_ref()));
        let text = format!("{section}.{name}: expected {expected}, got {got}");
        mistake(self.value.span().start, text)
    }
}
