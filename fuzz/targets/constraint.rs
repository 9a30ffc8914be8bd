//! A constraint expression.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(constraint) = cmdp::Constraint::parse(text, &robots::COSTS) {
        let again = cmdp::Constraint::parse(&constraint.to_string(), &robots::COSTS);
        assert_eq!(again.expect("our own text"), constraint);
    }
});
