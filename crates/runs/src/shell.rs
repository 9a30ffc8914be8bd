//! Text from elsewhere - a file's name, a run's configuration, what a process said - as it may stand in a
//! shell or on a terminal.

/// One word of a shell's command line.
pub fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Text for a terminal: what would steer it is shown instead.
pub fn printable(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in
            ["runs/a-1", "mean(torque)<=0.4", "it's; rm -rf $HOME `x`", "", "-n", "a\nb", "é λ"]
        {
            let script = format!("printf %s {}", quote(text));
            // `--` would be another word: printf takes the first for its format.
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
        assert_eq!(quote("runs/hopper-ipo-0"), "runs/hopper-ipo-0");
    }

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\rc λ"), "a\\u{1b}[2Jb\\rc λ");
    }
}
