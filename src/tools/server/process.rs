//! A server that is a process: its start, its standard error and its end.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::hidden::Hidden;
use crate::config::McpProcess;

/// Variables of the host's environment that every server gets.
const PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// Bytes of a line of standard error that are logged. Protects the log.
const LOG_LINE_BYTES_MAX: usize = 8 * 1024;
/// Lines of standard error that are logged, from its start to its end. Protects the same.
const LOG_LINES_MAX: usize = 10_000;

/// A process in a group of its own, which ends with this value; or one in the group of this process, which ends
/// alone.
pub(super) struct Process {
    child: Child,
    /// Its own; none once it was killed.
    group: Option<Pid>,
    log: Option<AbortHandle>,
}

/// What a process reads and writes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl Process {
    /// Starts it with nothing of the host's environment but what it is given.
    pub(super) fn start(
        server: &str,
        settings: &McpProcess,
        home: &Path,
        hidden: &Hidden,
    ) -> Result<(Self, Pipes), String> {
        let Some((program, arguments)) = settings.command.split_first() else {
            return Err("there is no program to start".to_owned());
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if !settings.joins_group {
            command.process_group(0);
        }
        let passed = settings.pass_env.iter().map(String::as_str);
        for name in PASSED.into_iter().chain(passed) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, value) in &settings.env {
            command.env(name, value.value());
        }
        if let Some(dir) = &settings.dir {
            command.current_dir(home.join(dir));
        }
        let failed = |error: std::io::Error| format!("cannot start {program:?}: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let id = child.id().filter(|_| !settings.joins_group);
        let group = id.and_then(|id| i32::try_from(id).ok());
        let group = group.and_then(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut process = Self {
            child,
            group,
            log: None,
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("it has no standard input and output".to_owned());
        };
        let logging = tokio::spawn(log(server.to_owned(), stderr, hidden.clone()));
        process.log = Some(logging.abort_handle());
        Ok((process, Pipes { stdin, stdout }))
    }

    /// Waits until it ended by itself.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Kills every process of its own group, or it alone. Those that left the group are beyond reach.
    pub(super) fn kill(&mut self) {
        // The number of a group is not given to another one while a process of it lives, and system-wide
        // numbers do not come round within the moment between the end of the last one and this.
        if let Some(group) = self.group.take() {
            // There may be nobody left.
            let _gone = kill_process_group(group, Signal::KILL);
        } else {
            let _gone = self.child.start_kill();
        }
    }

    /// Gives it time to end by itself, and then kills what is left.
    pub(super) async fn end(mut self, time: Duration) -> Option<ExitStatus> {
        let by_itself = timeout(time, self.ended()).await.ok().flatten();
        self.kill();
        match by_itself {
            Some(status) => Some(status),
            None => {
                self.ended().await;
                None
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(log) = &self.log {
            log.abort();
        }
    }
}

/// How a process ended, in words.
pub(super) fn status_words(status: ExitStatus) -> String {
    // Its own words are `exit status: 1` and `signal: 9 (SIGKILL)`.
    format!("it ended with {}", status.to_string().replace(": ", " "))
}

/// Logs lines as they come, each cut, and what was configured as hidden left out.
async fn log(server: String, stderr: impl AsyncRead + Unpin, hidden: Hidden) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut count = 0_usize;
    // Enough of what is cut off is read to find a value there that began before.
    let read_max = LOG_LINE_BYTES_MAX.saturating_add(hidden.bytes_max());
    loop {
        let Ok(available) = stderr.fill_buf().await else {
            return;
        };
        let is_over = available.is_empty();
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = available.get(..end.unwrap_or(available.len()));
        let part = part.unwrap_or_default();
        let room = read_max.saturating_sub(line.len());
        line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
        let consumed = part.len() + usize::from(end.is_some());
        stderr.consume(consumed);
        if (end.is_some() || is_over) && !line.is_empty() {
            count = count.saturating_add(1);
            if count <= LOG_LINES_MAX {
                let text = visible(&hidden.clean(&String::from_utf8_lossy(&line)));
                tracing::info!(server, "{text}");
            } else if count == LOG_LINES_MAX + 1 {
                tracing::warn!(server, "standard error has more than {LOG_LINES_MAX} lines");
            }
            line.clear();
        }
        if is_over {
            return;
        }
    }
}

/// A foreign text for a log, cut, with what does not show spelled out: control characters, and those that
/// hide or turn the direction of writing.
fn visible(text: &str) -> String {
    let end = text.floor_char_boundary(LOG_LINE_BYTES_MAX);
    let mut visible = String::with_capacity(end);
    for character in text.get(..end).unwrap_or_default().chars() {
        match character {
            '"' | '\'' | '\\' => visible.push(character),
            other => visible.extend(other.escape_debug()),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::{LOG_LINE_BYTES_MAX, visible};

    #[test]
    fn what_does_not_show_is_spelled_out() {
        assert_eq!(visible("a \"b\" \\ ä"), "a \"b\" \\ ä");
        let hostile = visible("a\u{1b}[2J\u{9b}b\u{202e}c\u{2028}d");
        assert_eq!(hostile, r"a\u{1b}[2J\u{9b}b\u{202e}c\u{2028}d");
        assert_eq!(
            visible(&"ä".repeat(LOG_LINE_BYTES_MAX)).len(),
            LOG_LINE_BYTES_MAX
        );
    }
}
