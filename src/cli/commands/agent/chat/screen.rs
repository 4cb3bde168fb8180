//! What a chat looks like.

use crate::cli::display::{message, text};
use crate::cli::printer::{Printer, shown_width};

/// Columns by which everything of the agent's stands further right.
const INDENT: usize = 2;
/// What stands before a line that is typed.
const MARK: &str = "> ";
/// Columns that a character takes at most.
const COLUMNS_PER_CHAR_MAX: usize = 2;
/// Faint, and as before.
const FAINT: (&str, &str) = ("\u{1b}[2m", "\u{1b}[0m");

/// Whose text is on the line that is not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Mark,
    Answer,
    Reasoning,
}

/// Prints a chat.
pub(super) struct Screen {
    printer: Printer,
    is_coloured: bool,
    /// Whether the answer goes to a terminal, which is to be told apart from ours there.
    is_shown: bool,
    open: Open,
    flow: Flow,
}

impl Screen {
    pub(super) fn new(printer: Printer) -> Self {
        Self {
            printer,
            is_coloured: printer.is_coloured(),
            is_shown: printer.is_shown(),
            open: Open::Nothing,
            flow: Flow::default(),
        }
    }

    /// A piece of the answer.
    pub(super) fn answer(&mut self, piece: &str) -> anyhow::Result<()> {
        if self.printer.json() || piece.is_empty() {
            return Ok(());
        }
        self.begin(Open::Answer)?;
        let piece = text(piece);
        if !self.is_shown {
            self.flow.column = usize::from(!piece.ends_with('\n'));
            return self.printer.piece(&piece);
        }
        let laid_out = self.flow.lay_out(&piece, shown_width());
        self.printer.piece(&laid_out)
    }

    /// A piece of how it comes about.
    pub(super) fn reasoning(&mut self, piece: &str) -> anyhow::Result<()> {
        if self.printer.json() || piece.is_empty() {
            return Ok(());
        }
        self.begin(Open::Reasoning)?;
        let laid_out = self.flow.lay_out(&text(piece), shown_width());
        self.printer.ask(&self.faint(&laid_out));
        Ok(())
    }

    /// Begins text of another kind on a line of its own.
    fn begin(&mut self, open: Open) -> anyhow::Result<()> {
        if self.open != open {
            self.end_line()?;
            self.open = open;
            if open == Open::Reasoning {
                // Without colours it is to be told from the answer as well.
                let mark = self.flow.lay_out("~ ", shown_width());
                self.printer.ask(&self.faint(&mark));
            }
        }
        Ok(())
    }

    /// Ends the line that is not ended.
    pub(super) fn end_line(&mut self) -> anyhow::Result<()> {
        let is_begun = self.flow.column > 0;
        self.flow = Flow::default();
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Answer if is_begun => self.printer.piece("\n")?,
            Open::Reasoning if is_begun => self.printer.ask("\n"),
            // What was typed ended it, or is about to stand above it.
            Open::Mark => self.printer.ask("\r"),
            _ => {}
        }
        Ok(())
    }

    /// A line of ours. What a stranger wrote of it stands behind the label.
    pub(super) fn say(&mut self, label: &str, said: &str) -> anyhow::Result<()> {
        if self.printer.json() {
            return Ok(());
        }
        self.end_line()?;
        self.printer
            .note(&crate::cli::printer::paragraph(&message(label, said)));
        Ok(())
    }

    /// The same, of less weight.
    pub(super) fn whisper(&mut self, label: &str, said: &str) -> anyhow::Result<()> {
        if self.printer.json() {
            return Ok(());
        }
        self.end_line()?;
        let line = crate::cli::printer::paragraph(&message(label, said));
        self.printer.note(&self.faint(&line));
        Ok(())
    }

    /// Asks for a line.
    pub(super) fn mark(&mut self) -> anyhow::Result<()> {
        if self.printer.is_attended() && self.open != Open::Mark {
            self.end_line()?;
            self.printer.ask(MARK);
            self.open = Open::Mark;
        }
        Ok(())
    }

    /// A line was typed, which ended the one that asked for it, or the one of the agent's that it was typed into.
    pub(super) fn typed(&mut self) {
        match self.open {
            Open::Mark => self.open = Open::Nothing,
            Open::Answer if self.is_shown => self.flow = Flow::default(),
            Open::Reasoning => self.flow = Flow::default(),
            Open::Answer | Open::Nothing => {}
        }
    }

    fn faint(&self, text: &str) -> String {
        match self.is_coloured {
            true => format!("{}{text}{}", FAINT.0, FAINT.1),
            false => text.to_owned(),
        }
    }
}

/// Lays text out that comes in pieces, on lines that the terminal does not break.
#[derive(Debug, Default)]
struct Flow {
    /// Columns that are taken of the line.
    column: usize,
    /// Whether the line may be broken where it is now.
    is_after_gap: bool,
}

impl Flow {
    fn lay_out(&mut self, piece: &str, width: usize) -> String {
        let width = width.max(INDENT + COLUMNS_PER_CHAR_MAX);
        let mut out = String::with_capacity(piece.len());
        for word in piece.split_inclusive(is_gap) {
            // A word that has no room here and has it on the next line goes there as a whole.
            let columns: usize = word.trim_end_matches(is_gap).chars().map(columns).sum();
            let has_room = self.column.saturating_add(columns) <= width;
            if self.is_after_gap && !has_room && columns <= width - INDENT {
                self.break_line(&mut out);
            }
            for character in word.chars() {
                self.put(character, width, &mut out);
            }
        }
        out
    }

    fn put(&mut self, character: char, width: usize, out: &mut String) {
        if character == '\n' {
            return self.break_line(out);
        }
        let columns = columns(character);
        if self.column > INDENT && self.column.saturating_add(columns) > width {
            self.break_line(out);
            if character == ' ' {
                // The end of the line says as much.
                self.is_after_gap = true;
                return;
            }
        }
        if self.column == 0 {
            out.extend(std::iter::repeat_n(' ', INDENT));
            self.column = INDENT;
        }
        out.push(character);
        self.column += columns;
        self.is_after_gap = is_gap(character);
    }

    fn break_line(&mut self, out: &mut String) {
        out.push('\n');
        *self = Self::default();
    }
}

/// Whether a line may be broken behind it.
fn is_gap(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n')
}

/// How many columns a character takes at most.
fn columns(character: char) -> usize {
    match character {
        '\t' => 8,
        character if character.is_ascii() => 1,
        _ => COLUMNS_PER_CHAR_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, Open, Screen};
    use crate::cli::printer::Printer;

    #[test]
    fn nothing_of_the_agents_begins_where_a_line_of_ours_does() {
        let mut flow = Flow::default();
        let mut out = String::new();
        for piece in ["ab", "cd", "ef\n> g", "", "\n\nh"] {
            out.push_str(&flow.lay_out(piece, 6));
        }
        assert_eq!(out, "  abcd\n  ef\n  > g\n\n  h");
        assert_eq!(Flow::default().lay_out("éé\t", 0), "  é\n  é\n  \t");
        assert_eq!(Flow::default().lay_out("abc", usize::MAX), "  abc");
    }

    #[test]
    fn what_comes_after_a_typed_line_is_indented_anew() {
        for open in [Open::Answer, Open::Reasoning] {
            let mut screen = Screen::new(Printer::new(false));
            screen.is_shown = true;
            screen.open = open;
            screen.flow.lay_out("It rai", 80);
            screen.typed();
            assert_eq!(screen.flow.lay_out("> ns", 80), "  > ns");
        }
    }

    #[test]
    fn a_line_is_broken_between_words_where_that_helps() {
        for (pieces, expected) in [
            (&["one two three"][..], "  one two \n  three"),
            (&["one ", "two ", "three"], "  one two \n  three"),
            // The gap that has no room is the break.
            (&["one four"], "  one four"),
            (&["one two34 five"], "  one \n  two34 \n  five"),
            (&["abcdefgh ij"], "  abcdefgh\n  ij"),
            // What has no room on a line of its own is broken anywhere.
            (&["a bcdefghijkl"], "  a bcdefg\n  hijkl"),
            (&["a\tbc"], "  a\n  \t\n  bc"),
        ] {
            let mut flow = Flow::default();
            let out: String = pieces.iter().map(|piece| flow.lay_out(piece, 10)).collect();
            assert_eq!(out, expected);
        }
    }
}
