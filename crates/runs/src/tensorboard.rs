//! Event files that TensorBoard reads: scalars only.
//!
//! A file is a sequence of records, each `length (u64), crc(length), data, crc(data)`, where data is
//! a protocol-buffer `Event { wall_time = 1, step = 2, file_version = 3, summary = 5 }` and a
//! summary holds values `{ tag = 1, simple_value = 2 }`. The crc is CRC-32C, rotated and shifted.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use cmdp::Constraint;
use ecrl::metrics::{Record, Value};

use crate::files::Log;
use crate::protobuf::Message;

/// A file that events are appended to.
#[derive(Debug)]
pub struct EventFile {
    log: Log,
}

impl EventFile {
    /// A name for a new file, as TensorBoard expects it.
    pub fn name() -> String {
        format!("events.out.tfevents.{}.ecrl", now() as u64)
    }

    /// Whether it is such a name: other programs end theirs otherwise.
    pub fn is_name(name: &str) -> bool {
        let time = name.strip_prefix("events.out.tfevents.").and_then(|t| t.strip_suffix(".ecrl"));
        time.is_some_and(|time| !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Goes on with a file, which begins here if it is empty.
    pub fn new(mut log: Log) -> io::Result<Self> {
        if log.state().0 == 0 {
            let mut event = Message::default();
            event.double(1, now());
            event.text(3, "brain.Event:2");
            log.append(&record(&event.0))?;
        }
        Ok(Self { log })
    }

    /// The file itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Appends scalars that belong to one step.
    pub fn append(&mut self, step: u64, scalars: &[(String, f64)]) -> io::Result<()> {
        self.log.append(&record(&event(now(), step, scalars)))
    }
}

/// The numbers of a generation by their tags; one for each constraint where a metric has so many.
pub fn scalars(record: &Record, constraints: &[Constraint]) -> Vec<(String, f64)> {
    let mut scalars = Vec::new();
    for (about, value) in record.iter() {
        match value {
            Value::Count(count) => scalars.push((about.tag.to_owned(), *count as f64)),
            Value::Number(number) => scalars.push((about.tag.to_owned(), *number)),
            Value::Flag(flag) => scalars.push((about.tag.to_owned(), f64::from(u8::from(*flag)))),
            Value::Numbers(numbers) => {
                scalars.extend(constraints.iter().zip(numbers).map(|(c, number)| {
                    (format!("{}/{}_{}", about.tag, c.aggregate.name(), c.name), *number)
                }))
            }
            Value::Text(_) => {}
        }
    }
    scalars
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn event(time: f64, step: u64, scalars: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (tag, number) in scalars {
        let mut value = Message::default();
        value.text(1, tag);
        value.float(2, *number as f32);
        summary.message(1, value);
    }
    let mut event = Message::default();
    event.double(1, time);
    event.number(2, step);
    event.message(5, summary);
    event.0
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), data, &masked_crc(data)].concat()
}

fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_tensorflow_writes() {
        // Event(wall_time=1.5, step=300, summary=[("a/b", 0.25)]), from TensorFlow's own classes.
        let expected = [
            0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 0x0c, 0x0a, 0x0a, 0x0a,
            0x03, 0x61, 0x2f, 0x62, 0x15, 0, 0, 0x80, 0x3e,
        ];
        assert_eq!(event(1.5, 300, &[("a/b".into(), 0.25)]), expected);
        // The masked CRC of a record's length 24, as TensorFlow's files begin.
        assert_eq!(masked_crc(&24u64.to_le_bytes()), [0xa3, 0x7f, 0x4b, 0x22]);
    }
}
