//! What a daemon and the worker that carries one execution out say to each other: frames of JSON over a pipe, each
//! with its length before it.

use std::io;

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use super::asked::{Ask, Told};
use crate::clock::Timestamp;
use crate::config::ApprovalPolicy;
use crate::id::RunId;
use crate::ledger::SessionFacts;
use crate::limits::LimitOverrides;
use crate::outcome::OutcomeCode;
use crate::runner::SessionSignal;
use crate::runtime::backend::{End, LedgerPart};

/// Bytes of one frame. The longest holds a prompt, which may be six times as long in JSON. Protects each side's
/// memory from the other.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Which execution a worker is to carry out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Launch {
    /// The run that it is.
    pub(super) run_id: RunId,
    /// Whether that has a ledger.
    pub(super) part: LedgerPart,
    /// What goes on record of it.
    pub(super) facts: SessionFacts,
    /// A JSON object, as text.
    pub(super) metadata: String,
    /// Limits for it alone.
    pub(super) limits: LimitOverrides,
    /// What is granted to it alone, in the grammar of capabilities.
    pub(super) grants: Vec<String>,
    /// How its questions are answered.
    pub(super) approvals: Option<ApprovalPolicy>,
    /// The mode of its tools at the start.
    pub(super) mode: String,
    /// How long a cancelled turn has to end by itself, and the execution to finish.
    pub(super) grace_ms: u64,
}

/// What a worker is told. The end of its input means that nobody is there any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// Begin; the first frame, and no other.
    Launch(Box<Launch>),
    /// A prompt.
    Prompt {
        /// Its number.
        generation: u64,
        /// What the agent is told.
        text: String,
    },
    /// Cancel the turn of that number.
    CancelTurn {
        /// Its number.
        generation: u64,
    },
    /// Take the tools of another mode.
    SetMode {
        /// The mode.
        mode: String,
    },
    /// Let the agent finish.
    Finish {
        /// Why.
        reason: String,
    },
    /// End as interrupted.
    Interrupt,
    /// The answer to what was asked.
    Tell {
        /// Its number.
        number: u64,
        /// The answer.
        told: Told,
    },
}

/// What a worker tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    /// The first event is durable.
    Started {
        /// When it was recorded.
        at: Timestamp,
    },
    /// The execution was not begun.
    Refused {
        /// The outcome code.
        code: OutcomeCode,
        /// Why.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Something became of it.
    Signal {
        /// What.
        signal: SessionSignal,
    },
    /// The tools are those of the mode that was asked for, unless there is an error.
    ModeSet {
        /// Why not.
        error: Option<String>,
    },
    /// A tool of the execution asks for something.
    Ask {
        /// The number by which the answer is found.
        number: u64,
        /// What.
        ask: Ask,
    },
    /// Nobody waits for an answer any more.
    TakeBack {
        /// The number of what was asked.
        number: u64,
    },
    /// The last event is on record; the last frame.
    Ended {
        /// How it ended.
        end: End,
    },
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .max_frame_length(FRAME_BYTES_MAX)
        .new_codec()
}

/// Frames that come in.
pub(super) struct Incoming<R>(FramedRead<R, LengthDelimitedCodec>);

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(super) fn new(reader: R) -> Self {
        Self(FramedRead::new(reader, codec()))
    }

    /// The next frame; none when the other side is gone.
    ///
    /// # Errors
    /// What came is no frame, or longer than one may be.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.0.next().await {
            None => Ok(None),
            Some(frame) => Ok(Some(serde_json::from_slice(&frame?)?)),
        }
    }
}

/// Frames that go out.
pub(super) struct Outgoing<W>(FramedWrite<W, LengthDelimitedCodec>);

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(FramedWrite::new(writer, codec()))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The other side is gone, or the frame is longer than one may be.
    pub(super) async fn send<T: Serialize>(&mut self, frame: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec(frame)?;
        self.0.send(Bytes::from(bytes)).await
    }
}

/// Reads everything as frames, and writes it as frames again.
fn respelled<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut incoming = Incoming::new(bytes);
    let mut outgoing = Outgoing::new(Vec::new());
    // Neither side waits for anything, since all of it is in memory.
    while let Some(frame) = incoming.next::<T>().now_or_never().transpose()?.flatten() {
        outgoing.send(&frame).now_or_never().transpose()?;
    }
    Ok(outgoing.0.into_inner())
}

/// Reads bytes as the frames of a worker, and gives them as this process would spell them.
///
/// # Errors
/// Something in them is no frame, or longer than one may be.
pub fn respell_worker_frames(bytes: &[u8]) -> io::Result<Vec<u8>> {
    respelled::<FromWorker>(bytes)
}

/// The same of the frames that a worker is sent.
///
/// # Errors
/// Something in them is no frame, or longer than one may be.
pub fn respell_daemon_frames(bytes: &[u8]) -> io::Result<Vec<u8>> {
    respelled::<ToWorker>(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// JSON of somebody else stays as it was spelled.
    #[test]
    fn a_launch_comes_back_from_its_frame() {
        let run_id = RunId::generate();
        let json = |text| crate::ledger::Json::parse(text).unwrap();
        let launch = ToWorker::Launch(Box::new(Launch {
            part: LedgerPart::Begin,
            facts: SessionFacts {
                execution_id: crate::id::ExecutionId::new(&run_id, 1).unwrap(),
                session_id: "s".to_owned(),
                task_id: None,
                agent_profile_id: "a".to_owned(),
                executor_id: "subprocess".to_owned(),
                workspace_path: None,
                repository_id: None,
                is_ephemeral: false,
                mcp_mode: "task".to_owned(),
                parent_execution_id: None,
                metadata: json(r#"{"b":1e400,"a":0.10,"a":1}"#),
            },
            run_id,
            metadata: "{}".to_owned(),
            limits: LimitOverrides::new(),
            grants: Vec::new(),
            approvals: None,
            mode: "task".to_owned(),
            grace_ms: 1,
        }));
        let frame = serde_json::to_vec(&launch).unwrap();
        assert_eq!(serde_json::from_slice::<ToWorker>(&frame).unwrap(), launch);
    }

    #[tokio::test]
    async fn frames_come_in_as_they_went_out_and_a_broken_one_is_refused() {
        let (near, far) = tokio::io::duplex(64);
        let frames = [
            ToWorker::Prompt {
                generation: 7,
                text: "ü\n\0".repeat(1000),
            },
            ToWorker::Interrupt,
        ];
        let sent = frames.clone();
        let sending = tokio::spawn(async move {
            let mut outgoing = Outgoing::new(near);
            for frame in &sent {
                outgoing.send(frame).await.unwrap();
            }
        });
        let mut incoming = Incoming::new(far);
        for frame in frames {
            assert_eq!(incoming.next::<ToWorker>().await.unwrap(), Some(frame));
        }
        sending.await.unwrap();
        assert_eq!(incoming.next::<ToWorker>().await.unwrap(), None);
        for broken in [
            &b"\0\0\0\x02{}"[..],
            b"\xff\xff\xff\xff",
            b"\0\0\0\x09{}",
            b"\0",
        ] {
            assert!(Incoming::new(broken).next::<ToWorker>().await.is_err());
        }
    }

    /// A frame around any text.
    fn framed(text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&length, text].concat()
    }

    /// Texts that are frames, or nearly.
    fn texts() -> impl Strategy<Value = String> {
        let number = any::<u64>();
        let text = "\\PC{0,8}";
        prop_oneof![
            Just("\"interrupt\"".to_owned()),
            (number, text).prop_map(|(generation, text)| {
                serde_json::json!({"prompt": {"generation": generation, "text": text}}).to_string()
            }),
            (number, text).prop_map(|(number, child)| {
                let ask = serde_json::json!({"ask": "stop", "child": child, "reason": ""});
                serde_json::json!({"ask": {"number": number, "ask": ask}}).to_string()
            }),
            (number, text).prop_map(|(seq, mode)| {
                let signal = serde_json::json!({"signal": "ready", "generation": 1, "seq": seq});
                match mode.is_empty() {
                    true => serde_json::json!({"signal": {"signal": signal}}).to_string(),
                    false => serde_json::json!({"mode_set": {"error": mode}}).to_string(),
                }
            }),
            "[\\[\\]{}\",:a-z0-9_]{0,24}",
        ]
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_so_that_the_same_is_read(
            texts in prop::collection::vec(texts(), 0..4),
            cut in 0..64_usize,
        ) {
            let mut bytes: Vec<u8> = texts.iter().flat_map(|text| framed(text.as_bytes())).collect();
            if cut < 8 {
                bytes.truncate(bytes.len().saturating_sub(cut));
            }
            for respell in [respell_worker_frames, respell_daemon_frames] {
                if let Ok(spelled) = respell(&bytes) {
                    prop_assert_eq!(respell(&spelled).unwrap(), spelled);
                }
            }
        }

        #[test]
        fn any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for respell in [respell_worker_frames, respell_daemon_frames] {
                let _read = respell(&bytes);
                let _read = respell(&framed(&bytes));
            }
        }
    }

    #[test]
    fn frames_of_one_side_are_none_of_the_other() {
        let prompt = framed(br#"{"prompt":{"generation":1,"text":"a"}}"#);
        assert_eq!(respell_daemon_frames(&prompt).unwrap(), prompt);
        assert!(respell_worker_frames(&prompt).is_err());
    }
}
