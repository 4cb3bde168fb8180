use super::Effect;

/// A tool that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    /// `server__tool`, or the name that the embedding host gave it.
    pub name: String,
    /// What it is for, in the words of whoever offers it. Foreign text.
    pub description: String,
    /// JSON Schema of the arguments, as JSON text.
    pub input_schema: String,
    /// What a repetition of a call would do.
    pub effect: Effect,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// A JSON array of MCP content blocks, as text.
    pub content: String,
    /// The tool itself says that it failed.
    pub is_error: bool,
}
