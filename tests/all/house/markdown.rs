//! What the documents say in code: links, code spans, lines of fenced blocks.

/// A piece of a document with the line it stands in, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

/// What a document holds besides prose.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// Targets of links and images.
    pub(super) links: Vec<Piece>,
    /// Text between single backticks.
    pub(super) spans: Vec<Piece>,
    /// Commands of fenced blocks: in a block with prompts only the lines after `$`, in any other
    /// every line. A line that ends in a backslash goes on in the next.
    pub(super) commands: Vec<Piece>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut block: Option<Vec<Piece>> = None;
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let is_fence = line.trim_start().starts_with("```");
            match (block.as_mut(), is_fence) {
                (None, true) => block = Some(Vec::new()),
                (Some(lines), false) => {
                    lines.push(Piece {
                        line: line_number,
                        text: line.trim().to_owned(),
                    });
                }
                (Some(lines), true) => {
                    document.commands.extend(commands(lines));
                    block = None;
                }
                (None, false) => document.prose(line_number, line),
            }
        }
        document
    }

    fn prose(&mut self, line_number: usize, line: &str) {
        let piece = |text: &str| Piece {
            line: line_number,
            text: text.to_owned(),
        };
        self.spans
            .extend(line.split('`').skip(1).step_by(2).map(piece));
        let outside_spans: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let inline = outside_spans
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let reference = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target.trim());
        self.links.extend(inline.chain(reference).map(piece));
    }
}

fn commands(lines: &[Piece]) -> Vec<Piece> {
    let has_prompts = lines.iter().any(|piece| piece.text.starts_with("$ "));
    let mut commands: Vec<Piece> = Vec::new();
    let mut goes_on = false;
    for piece in lines {
        let text = piece.text.trim_end_matches('\\').trim();
        if let Some(command) = commands.last_mut().filter(|_| goes_on) {
            command.text = format!("{} {text}", command.text);
        } else if let Some(command) = text.strip_prefix("$ ") {
            commands.push(Piece {
                line: piece.line,
                text: command.to_owned(),
            });
        } else if !has_prompts {
            commands.push(Piece {
                line: piece.line,
                text: text.to_owned(),
            });
        } else {
            continue;
        }
        goes_on = piece.text.ends_with('\\');
    }
    commands
}

#[test]
fn links_spans_and_commands_are_told_apart() {
    let text = "\
A [link](docs/x.md#part) and `src/lib.rs`, not `[this](one)`.
[reference]: SECURITY.md
```text
$ skillrun run greet \\
    --json
run_1 ok
```
```
cargo xtask demo
```
";
    let piece = |line, text: &str| Piece {
        line,
        text: text.to_owned(),
    };
    assert_eq!(
        Document::parse(text),
        Document {
            links: vec![piece(1, "docs/x.md#part"), piece(2, "SECURITY.md")],
            spans: vec![piece(1, "src/lib.rs"), piece(1, "[this](one)")],
            commands: vec![
                piece(4, "skillrun run greet --json"),
                piece(9, "cargo xtask demo")
            ],
        }
    );
}
