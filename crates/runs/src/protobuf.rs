//! Messages of protocol buffers, field by field: what TensorBoard's events and ONNX are made of.

/// A message in the making.
#[derive(Debug, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A whole number.
    pub fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    /// A number of 64 bits.
    pub fn double(&mut self, field: u64, number: f64) {
        self.varint(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
    }

    /// A number of 32 bits.
    pub fn float(&mut self, field: u64, number: f32) {
        self.varint(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
    }

    /// Bytes.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Text.
    pub fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A message within.
    pub fn message(&mut self, field: u64, message: Self) {
        self.bytes(field, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_coded_as_protocol_buffers_say() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        let expected = b"\x08\x96\x01\x12\x07testing";
        assert_eq!(message.0, expected);
    }
}
