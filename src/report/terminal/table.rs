//! Plain aligned columns that never exceed the terminal's 100 columns.

/// Widest line printed.
pub const WIDTH: usize = 100;

/// A table under construction; every row has as many cells as there are columns.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns with their names; `true` for those aligned right.
    pub fn new(columns: &[(&str, bool)]) -> Self {
        Self { columns: columns.iter().map(|(n, right)| (n.to_string(), *right)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// No cell of the last column must wrap harder than into lines of 12.
    pub fn fits(&self) -> bool {
        self.indent_of_last(&self.widths()) + 12 <= WIDTH
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.columns.len())
            .map(|i| {
                let cells = self.rows.iter().filter_map(|r| r.get(i)).map(|c| width(c));
                cells.chain([width(&self.columns[i].0)]).max().unwrap_or(0)
            })
            .collect()
    }

    fn indent_of_last(&self, widths: &[usize]) -> usize {
        widths.iter().take(self.columns.len().saturating_sub(1)).map(|w| w + 2).sum::<usize>() + 2
    }

    /// The lines, two spaces in, the head first. The last column wraps where a line would exceed [`WIDTH`].
    pub fn lines(&self) -> Vec<String> {
        let mut widths = self.widths();
        let last = widths.last().copied().unwrap_or(0).min(12);
        let over = (self.indent_of_last(&widths) + last).saturating_sub(WIDTH);
        if let [first, _, ..] = widths.as_mut_slice() {
            // Too many columns: the first one, which names the row, wraps too.
            *first = first.saturating_sub(over).max((*first).min(8));
        }
        let before = self.indent_of_last(&widths);
        let room = WIDTH.saturating_sub(before).max(12);
        let head: Vec<String> = self.columns.iter().map(|(n, _)| n.clone()).collect();
        std::iter::once(&head)
            .chain(&self.rows)
            .flat_map(|cells| self.row_lines(cells, &widths, before, room))
            .collect()
    }

    fn row_lines(&self, cells: &[String], widths: &[usize], before: usize, room: usize) -> Vec<String> {
        let last = self.columns.len().saturating_sub(1);
        let mut line = "  ".to_string();
        let names = if last > 0 { wrap(&cells[0], widths[0].max(1)) } else { Vec::new() };
        for (i, cell) in cells.iter().enumerate().take(last) {
            let cell = if i == 0 && names.len() > 1 { &names[0] } else { cell };
            let padding = " ".repeat(widths[i].saturating_sub(width(cell)));
            let padded = if self.columns[i].1 { format!("{padding}{cell}") } else { format!("{cell}{padding}") };
            line.push_str(&padded);
            line.push_str("  ");
        }
        let tail = cells.get(last).map(String::as_str).unwrap_or_default();
        let mut lines = Vec::new();
        let mut parts = wrap(tail, room);
        parts.resize(parts.len().max(names.len()), String::new());
        for (i, part) in parts.into_iter().enumerate() {
            let start = if i == 0 {
                line.clone()
            } else {
                let name = names.get(i).map_or("", String::as_str);
                format!("  {name}{}", " ".repeat(before.saturating_sub(2 + width(name))))
            };
            let padding = if self.columns[last].1 {
                " ".repeat(widths[last].saturating_sub(width(&part)))
            } else {
                String::new()
            };
            lines.push(format!("{start}{padding}{part}").trim_end().to_string());
        }
        lines
    }
}

/// Columns a text takes (every character printed here is one wide).
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text at spaces, and inside a word only where the word alone is too long. At least one line.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        let used = lines.last().map_or(0, |l| width(l));
        if used > 0 && used + 1 + rest.len() > room {
            lines.push(String::new());
        }
        while rest.len() > room {
            let head: String = rest.drain(..room).collect();
            push(&mut lines, &head);
            lines.push(String::new());
        }
        push(&mut lines, &rest.iter().collect::<String>());
    }
    lines
}

/// Breaks a shell command at spaces between words only: a quoted word stays whole, its spaces with it, even where it
/// is too long for a line. At least one line.
pub fn wrap_shell(command: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in shell_words(command) {
        let used = lines.last().map_or(0, |l| width(l));
        if used > 0 && used + 1 + width(&word) > room {
            lines.push(String::new());
        }
        push(&mut lines, &word);
    }
    lines
}

/// The words as written, quotes included.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut escaped) = (None, false);
    for c in command.chars() {
        if quote.is_none() && !escaped && c == ' ' {
            words.push(String::new());
            continue;
        }
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

fn push(lines: &mut [String], word: &str) {
    if let Some(line) = lines.last_mut() {
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_and_long_texts_stay_inside() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("", 4), [""]);
        let mut table = Table::new(&[("n", true), ("text", false)]);
        table.row(vec!["1".to_string(), "word ".repeat(80)]);
        table.row(vec!["200".to_string(), "x".repeat(300)]);
        assert!(table.lines().iter().all(|l| width(l) <= WIDTH));
    }

    #[test]
    fn a_wrapped_command_means_the_same_to_a_shell() {
        let words = [
            "printf",
            "'%s\\n'",
            "'a:  two  spaces'",
            "'it'\\''s one  word'",
            "a\\ b",
            "\"x \\\" y\"",
            "'  - [1, 2]'",
            "z",
        ];
        let command = words.join(" ");
        for room in [4, 12, 30, 200] {
            let pasted = wrap_shell(&command, room).join(" \\\n         ");
            let out = std::process::Command::new("sh").args(["-c", &pasted]).output().expect("sh runs");
            let expected = "a:  two  spaces\nit's one  word\na b\nx \" y\n  - [1, 2]\nz\n";
            assert_eq!(String::from_utf8_lossy(&out.stdout), expected, "{pasted}");
        }
    }

    #[test]
    fn a_long_name_wraps_where_many_columns_leave_no_room() {
        let mut table = Table::new(&[("op", false), ("a", true), ("b", true), ("binds", false)]);
        table.row(vec!["latent attention of a long name".into(), "1".repeat(32), "2".repeat(28), "memory".into()]);
        let lines = table.lines();
        assert!(lines.iter().all(|l| width(l) <= WIDTH), "{lines:?}");
        assert!(lines[1].ends_with("memory") && lines[2].trim() == "name", "{lines:?}");
    }
}
