//! What was said so far, in a form that every model takes.

use skillrun_sdk::llm::{Message, Part, Role, ToolAnswer, ToolUse};

/// Bytes of a token, so few that what fits by bytes fits by tokens as well, and an answer has room.
const TOKEN_BYTES: usize = 3;
/// Bytes that are kept at most, whatever the model takes. Protects the calls of the host, which have a limit, and
/// each of which carries all of it.
const CONVERSATION_BYTES_MAX: usize = 512 * 1024;

/// The messages of a conversation. Turns of it begin with a message of the user, nobody speaks twice in a row, and
/// between turns no request for a tool is without an answer.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    bytes_max: usize,
}

/// What a tool answered, as the model is told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) content: String,
    pub(crate) is_error: bool,
}

impl Told {
    /// That something went wrong.
    pub(crate) fn error(content: String) -> Self {
        Self {
            content,
            is_error: true,
        }
    }
}

impl Conversation {
    /// An empty one that stays within a context window.
    pub(crate) fn within(window_tokens: u32) -> Self {
        let window_bytes = usize::try_from(window_tokens)
            .map_or(usize::MAX, |tokens| tokens.saturating_mul(TOKEN_BYTES));
        Self {
            messages: Vec::new(),
            bytes_max: window_bytes.min(CONVERSATION_BYTES_MAX),
        }
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The user speaks. The oldest turns are forgotten if there would be too much.
    pub(crate) fn ask(&mut self, text: &str) {
        self.make_room(text.len());
        match self.messages.last_mut() {
            // The last turn ended before anybody answered.
            Some(last) if last.role == Role::User => {
                last.content.push(Part::Text(text.to_owned()));
            }
            _ => self.messages.push(Message::user(text)),
        }
    }

    /// The model has spoken.
    pub(crate) fn say(&mut self, mut message: Message) {
        let is_said = |part: &Part| !matches!(part, Part::Text(text) if text.is_empty());
        message.content.retain(is_said);
        if !message.content.is_empty() {
            self.messages.push(message);
        }
    }

    /// The model has begun to speak.
    pub(crate) fn say_part(&mut self, text: &str) {
        self.say(Message::assistant(text));
    }

    /// A tool has answered.
    pub(crate) fn tell(&mut self, wanted: &ToolUse, told: Told) {
        let answer = Part::ToolAnswer(ToolAnswer {
            id: wanted.id.clone(),
            content: told.content,
            is_error: told.is_error,
        });
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Tool => last.content.push(answer),
            _ => self.messages.push(Message {
                role: Role::Tool,
                content: vec![answer],
            }),
        }
    }

    /// Ends the turn: what was asked of a tool and not answered is answered now.
    pub(crate) fn close(&mut self) {
        for wanted in self.unanswered() {
            self.tell(&wanted, Told::error("cancelled".to_owned()));
        }
    }

    /// The requests for tools in the last message of the model to which nothing was answered.
    fn unanswered(&self) -> Vec<ToolUse> {
        let is_model = |message: &Message| message.role == Role::Assistant;
        let Some(at) = self.messages.iter().rposition(is_model) else {
            return Vec::new();
        };
        let (before, after) = self.messages.split_at(at + 1);
        let answered: Vec<&str> = parts(after)
            .filter_map(|part| match part {
                Part::ToolAnswer(answer) => Some(answer.id.as_str()),
                Part::Text(_) | Part::ToolUse(_) => None,
            })
            .collect();
        parts(before.last())
            .filter_map(|part| match part {
                Part::ToolUse(wanted) => Some(wanted),
                Part::Text(_) | Part::ToolAnswer(_) => None,
            })
            .filter(|wanted| !answered.contains(&wanted.id.as_str()))
            .cloned()
            .collect()
    }

    /// Forgets the oldest turns, each as a whole, until so many bytes more have room.
    fn make_room(&mut self, bytes: usize) {
        while !self.messages.is_empty() && self.bytes().saturating_add(bytes) > self.bytes_max {
            let is_user = |message: &Message| message.role == Role::User;
            let next = self.messages.iter().skip(1).position(is_user);
            let turn = next.map_or(self.messages.len(), |after_first| after_first + 1);
            self.messages.drain(..turn);
        }
    }

    fn bytes(&self) -> usize {
        let bytes = parts(&self.messages).map(|part| match part {
            Part::Text(text) => text.len(),
            Part::ToolUse(wanted) => wanted.name.len() + wanted.arguments.to_string().len(),
            Part::ToolAnswer(answer) => answer.content.len(),
        });
        bytes.sum()
    }
}

fn parts<'a>(messages: impl IntoIterator<Item = &'a Message>) -> impl Iterator<Item = &'a Part> {
    messages
        .into_iter()
        .flat_map(|message| message.content.iter())
}
