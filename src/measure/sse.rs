//! Which server-sent events do these stamped bytes hold?
//!
//! The time of an event is that of the socket read that completed it. Grammar: WHATWG HTML, "Server-sent events".

/// Longest event accepted, in bytes; a longer one is a broken stream rather than a token.
const LONGEST_EVENT: usize = 8 << 20;

/// One event that carried data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When the read that completed it returned, in nanoseconds of the run.
    pub at_ns: u64,
    /// The joined `data:` lines.
    pub data: Vec<u8>,
    /// The `event:` field, where one was given.
    pub kind: Option<String>,
}

/// Splits a stream into events, whatever the reads cut through.
#[derive(Debug, Default)]
pub struct Splitter {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    kind: Option<String>,
    after_cr: bool,
    /// Comment lines seen (keep-alive pings of proxies).
    pub comments: usize,
    /// Set when an event passed 8 MiB; the stream is given up.
    pub overlong: bool,
    /// Lines that are neither a field nor a comment.
    pub foreign_lines: usize,
}

impl Splitter {
    /// Feeds one read; complete events are handed to `out` in order.
    pub fn feed(&mut self, at_ns: u64, bytes: &[u8], out: &mut impl FnMut(Event)) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.overlong {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                self.overlong = self.line.len() + self.data.len() > LONGEST_EVENT;
                return;
            };
            self.line.extend_from_slice(&rest[..end]);
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(at_ns, &line, out);
            self.line = line;
            self.line.clear();
        }
    }

    /// True when the stream ended inside an event: bytes arrived that no blank line closed.
    pub fn cut_inside_event(&self) -> bool {
        !self.line.is_empty() || self.has_data
    }

    /// Ends the stream. A last event without its blank line is handed out, as many servers omit it after `[DONE]`.
    pub fn finish(&mut self, at_ns: u64, out: &mut impl FnMut(Event)) {
        if self.line.starts_with(b"data:") && self.line.ends_with(b"[DONE]") || self.line.is_empty() && self.has_data {
            let line = std::mem::take(&mut self.line);
            if !line.is_empty() {
                self.take_line(at_ns, &line, out);
            }
            self.take_line(at_ns, b"", out);
        }
    }

    fn take_line(&mut self, at_ns: u64, line: &[u8], out: &mut impl FnMut(Event)) {
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                out(Event { at_ns, data: std::mem::take(&mut self.data), kind: self.kind.take() });
            }
            self.kind = None;
            return;
        }
        let (field, value) = match line.iter().position(|&b| b == b':') {
            Some(0) => {
                self.comments += 1;
                return;
            }
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
                self.overlong = self.data.len() > LONGEST_EVENT;
            }
            b"event" => self.kind = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" | b"retry" => {}
            _ => self.foreign_lines += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(reads: &[&[u8]]) -> Vec<(u64, String)> {
        let (mut s, mut events) = (Splitter::default(), vec![]);
        let mut keep = |e: Event| events.push((e.at_ns, String::from_utf8(e.data).unwrap()));
        for (i, read) in reads.iter().enumerate() {
            s.feed(i as u64, read, &mut keep);
        }
        s.finish(reads.len() as u64, &mut keep);
        events
    }

    #[test]
    fn an_event_is_stamped_by_the_read_that_completes_it() {
        let events = split(&[b"data: a\n\ndata: b", b"c\r\n\r", b"\n: ping\n\ndata: [DONE]"]);
        assert_eq!(events, [(0, "a".into()), (1, "bc".into()), (3, "[DONE]".into())]);
    }

    #[test]
    fn data_lines_join_and_comments_carry_nothing() {
        assert_eq!(split(&[b": hello\ndata:x\nevent: y\ndata: z\n\n\n\n"]), [(0, "x\nz".into())]);
    }

    #[test]
    fn half_an_event_is_not_an_event() {
        assert_eq!(split(&[b"data: {\"choices\": [{\"del"]), []);
    }

    proptest! {
        /// Where the reads cut the stream changes no event, and nothing panics on arbitrary bytes.
        #[test]
        fn cuts_do_not_matter(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'),
            Just(b'd'), any::<u8>()], 0..200), cut in 0usize..200)
        {
            let run = |parts: &[&[u8]]| {
                let (mut s, mut events) = (Splitter::default(), vec![]);
                for p in parts { s.feed(0, p, &mut |e| events.push(e.data)); }
                s.finish(0, &mut |e| events.push(e.data));
                events
            };
            let cut = cut.min(bytes.len());
            prop_assert_eq!(run(&[&bytes]), run(&[&bytes[..cut], &bytes[cut..]]));
        }
    }
}
