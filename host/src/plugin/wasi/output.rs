//! What a guest writes to stdout and stderr, line by line.

/// Bytes without a line's end that are kept; what is longer becomes a line.
const MAX_PENDING: usize = 2_048;

/// The unfinished last line of one output.
#[derive(Debug, Default)]
pub(in crate::plugin) struct Output {
    pending: Vec<u8>,
}

impl Output {
    /// Takes what was written; gives the lines that it completes, without those that are blank.
    pub(in crate::plugin) fn write(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.pending.extend_from_slice(line);
            bytes = rest.get(1..).unwrap_or_default();
            self.finish(&mut lines);
        }
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > MAX_PENDING {
            self.finish(&mut lines);
        }
        lines
    }

    fn finish(&mut self, lines: &mut Vec<String>) {
        let line = String::from_utf8_lossy(&self.pending).trim_end().to_owned();
        self.pending = Vec::new();
        if !line.is_empty() {
            lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_were_written() {
        let mut output = Output::default();
        assert!(output.write(b"thread 'main' ").is_empty());
        assert_eq!(output.write(b"panicked:\r\n\nat"), ["thread 'main' panicked:"]);
        assert_eq!(output.write(b" once\ntwice\n"), ["at once", "twice"]);
    }

    #[test]
    fn a_line_without_end_is_not_collected_forever() {
        let mut output = Output::default();
        let mut lines = 0;
        for _ in 0..1_000 {
            lines += output.write(&[b'x'; 100]).len();
            assert!(output.pending.len() <= MAX_PENDING);
        }
        assert!(lines >= 40, "{lines}");
    }
}
