//! The index's tables and what is asked of them.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, Statement, params_from_iter};

use crate::id::RunId;
use crate::ledger::digest::Digest;
use crate::ledger::folder::FileStamp;
use crate::ledger::list::{Cursor, OfSession, RunQuery, skill_of};
use crate::ledger::payload::{Head, RunStatus};
use crate::ledger::summary::{RunState, Summary};

/// The note that holds the modification time of the database's file.
pub(super) const STAMP: &str = "stamp";
/// Changed whenever the tables are; an index of another version is made anew.
const VERSION: i64 = 3;

const SCHEMA: &str = "
    CREATE TABLE run (
        run_id TEXT PRIMARY KEY,
        started_micros INTEGER NOT NULL,
        status TEXT NOT NULL,
        skill TEXT,
        parent_run_id TEXT,
        session_id TEXT,
        file_inode INTEGER NOT NULL,
        file_bytes INTEGER NOT NULL,
        file_mtime_nanos INTEGER NOT NULL,
        head_seq INTEGER,
        head_sha256 TEXT
    ) WITHOUT ROWID;
    CREATE INDEX run_by_time ON run (started_micros, run_id);
    CREATE INDEX run_by_status ON run (status, started_micros, run_id);
    CREATE INDEX run_by_skill ON run (skill, started_micros, run_id);
    CREATE INDEX run_by_parent ON run (parent_run_id, started_micros, run_id)
        WHERE parent_run_id IS NOT NULL;
    CREATE INDEX run_by_session ON run (session_id, started_micros, run_id)
        WHERE session_id IS NOT NULL;
    CREATE TABLE foreign_name (name TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE noted (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// A run as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) run_id: RunId,
    pub(super) started_micros: i64,
    pub(super) status: String,
    /// The skill, also when a function of it was asked for.
    pub(super) skill: Option<String>,
    pub(super) parent_run_id: Option<String>,
    pub(super) session_id: Option<String>,
    /// The file that the rest was read from.
    pub(super) file: FileStamp,
    /// The newest line, once it surely survives a power cut.
    pub(super) head: Option<Head>,
}

impl Row {
    pub(super) fn new(run: &Summary, started_micros: i64, file: FileStamp) -> Self {
        Self {
            run_id: run.run_id.clone(),
            started_micros: run
                .started_at
                .map_or(started_micros, |time| time.unix_micros()),
            status: run.state.as_str().to_owned(),
            skill: run.skill.as_deref().map(|asked| skill_of(asked).to_owned()),
            parent_run_id: run.parent_run_id.as_ref().map(ToString::to_string),
            session_id: run.session_id.clone(),
            file,
            head: None,
        }
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor {
            started_micros: self.started_micros,
            run_id: self.run_id.clone(),
        }
    }

    /// Whether the list would have them in one place and let them pass the same conditions.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.started_micros == other.started_micros
            && self.status == other.status
            && self.skill == other.skill
            && self.parent_run_id == other.parent_run_id
            && self.session_id == other.session_id
    }

    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Self> {
        let head = match (
            row.get::<_, Option<i64>>("head_seq")?,
            row.get::<_, Option<String>>("head_sha256")?,
        ) {
            (Some(seq), Some(sha256)) => Some(Head {
                seq: seq.cast_unsigned(),
                sha256: parsed::<Digest>(&sha256)?,
            }),
            _ => None,
        };
        Ok(Self {
            run_id: parsed(&row.get::<_, String>("run_id")?)?,
            started_micros: row.get("started_micros")?,
            status: row.get("status")?,
            skill: row.get("skill")?,
            parent_run_id: row.get("parent_run_id")?,
            session_id: row.get("session_id")?,
            file: FileStamp {
                inode: row.get::<_, i64>("file_inode")?.cast_unsigned(),
                bytes: row.get::<_, i64>("file_bytes")?.cast_unsigned(),
                mtime_nanos: row.get("file_mtime_nanos")?,
            },
            head,
        })
    }
}

/// A text in the index that is not what was put there: the index is damaged.
fn parsed<T: std::str::FromStr>(text: &str) -> rusqlite::Result<T> {
    text.parse()
        .map_err(|_| rusqlite::Error::InvalidColumnName(text.chars().take(80).collect()))
}

/// The tables, inside one transaction.
pub(super) struct Table<'a>(&'a Connection);

impl<'a> Table<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self(connection)
    }

    /// Makes the tables in an empty database.
    pub(super) fn create(&self) -> rusqlite::Result<()> {
        self.0.execute_batch(SCHEMA)?;
        self.0.pragma_update(None, "user_version", VERSION)
    }

    /// The number noted as [`STAMP`]; `None` also when the tables are of another version.
    pub(super) fn stamp(&self) -> rusqlite::Result<Option<i64>> {
        let version: i64 = self
            .0
            .pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == VERSION {
            self.noted(STAMP)
        } else {
            Ok(None)
        }
    }

    /// A number that was noted under a name.
    pub(super) fn noted(&self, name: &str) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT value FROM noted WHERE name = ?1";
        self.0.query_row(sql, [name], |row| row.get(0)).optional()
    }

    /// Notes a number; one that is there already is not written again.
    pub(super) fn note(&self, name: &str, value: i64) -> rusqlite::Result<()> {
        if self.noted(name)? == Some(value) {
            return Ok(());
        }
        let sql = "INSERT OR REPLACE INTO noted (name, value) VALUES (?1, ?2)";
        self.0.execute(sql, (name, value)).map(drop)
    }

    /// Every run's id with the inode of its ledger, in order of the ids.
    pub(super) fn names(
        &self,
        visit: &mut dyn FnMut(&str, u64) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT run_id, file_inode FROM run ORDER BY run_id";
        let mut statement = self.0.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let inode = row.get::<_, i64>(1)?.cast_unsigned();
            visit(row.get_ref(0)?.as_str()?, inode)?;
        }
        Ok(())
    }

    /// The latest id, those of the original system apart, which name the year in digits.
    pub(super) fn newest(&self) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT max(run_id) FROM run WHERE run_id < 'run_1'";
        self.0.query_row(sql, [], |row| row.get(0))
    }

    /// Prepares the statement that puts a row in place of the run's old one.
    pub(super) fn writer(&self) -> rusqlite::Result<RowWriter<'a>> {
        let sql = "INSERT OR REPLACE INTO run (run_id, started_micros, status, skill, \
             parent_run_id, session_id, file_inode, file_bytes, file_mtime_nanos, head_seq, \
             head_sha256) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        Ok(RowWriter(self.0.prepare(sql)?))
    }

    pub(super) fn remove(&self, run_id: &str) -> rusqlite::Result<()> {
        self.0
            .execute("DELETE FROM run WHERE run_id = ?1", [run_id])
            .map(drop)
    }

    pub(super) fn get(&self, run_id: &RunId) -> rusqlite::Result<Option<Row>> {
        let sql = "SELECT * FROM run WHERE run_id = ?1";
        self.0
            .query_row(sql, [run_id.as_str()], Row::read)
            .optional()
    }

    /// The runs whose ledgers may still change.
    pub(super) fn unfinished(&self) -> rusqlite::Result<Vec<Row>> {
        let unfinished = [
            RunState::Running,
            RunState::Corrupt,
            RunState::Ended(RunStatus::Suspended),
            RunState::Ended(RunStatus::Interrupted),
        ];
        let sql = "SELECT * FROM run WHERE status IN (?1, ?2, ?3, ?4)";
        let mut statement = self.0.prepare(sql)?;
        let rows = statement.query_map(unfinished.map(RunState::as_str), Row::read)?;
        rows.collect()
    }

    /// The first `limit` runs that `query` wants, newest first.
    pub(super) fn page(&self, query: &RunQuery, limit: usize) -> rusqlite::Result<Vec<Row>> {
        let mut sql = "SELECT * FROM run WHERE 1".to_owned();
        let mut values: Vec<Value> = Vec::new();
        if let Some(state) = query.state {
            sql.push_str(" AND status = ?");
            values.push(state.as_str().to_owned().into());
        }
        if query.may_go_on {
            sql.push_str(" AND status IN (?, ?, ?)");
            let states = [
                RunState::Running,
                RunState::Ended(RunStatus::Suspended),
                RunState::Ended(RunStatus::Interrupted),
            ];
            values.extend(states.map(|state| state.as_str().to_owned().into()));
        }
        if let Some(skill) = &query.skill {
            sql.push_str(" AND skill = ?");
            values.push(skill_of(skill).to_owned().into());
        }
        if let Some(parent) = &query.parent_run_id {
            sql.push_str(" AND parent_run_id = ?");
            values.push(parent.to_string().into());
        }
        match &query.session {
            None => {}
            Some(OfSession::Any) => sql.push_str(" AND session_id IS NOT NULL"),
            Some(OfSession::One(session_id)) => {
                sql.push_str(" AND session_id = ?");
                values.push(session_id.clone().into());
            }
        }
        if let Some(since) = query.since {
            sql.push_str(" AND started_micros >= ?");
            values.push(since.unix_micros().into());
        }
        if let Some(after) = &query.after {
            sql.push_str(" AND (started_micros, run_id) < (?, ?)");
            values.push(after.started_micros.into());
            values.push(after.run_id.to_string().into());
        }
        sql.push_str(" ORDER BY started_micros DESC, run_id DESC LIMIT ?");
        values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        let mut statement = self.0.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(values), Row::read)?;
        rows.collect()
    }

    /// Replaces the names of files that look like ledgers and are none.
    pub(super) fn put_foreign(&self, names: &[String]) -> rusqlite::Result<()> {
        self.0.execute("DELETE FROM foreign_name", [])?;
        for name in names {
            let sql = "INSERT OR IGNORE INTO foreign_name (name) VALUES (?1)";
            self.0.execute(sql, [name])?;
        }
        Ok(())
    }

    pub(super) fn foreign(&self) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM foreign_name ORDER BY name";
        let mut statement = self.0.prepare(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    }
}

/// Puts rows, one after the other.
pub(super) struct RowWriter<'a>(Statement<'a>);

impl RowWriter<'_> {
    pub(super) fn put(&mut self, row: &Row) -> rusqlite::Result<()> {
        self.0
            .execute((
                row.run_id.as_str(),
                row.started_micros,
                &row.status,
                &row.skill,
                &row.parent_run_id,
                &row.session_id,
                row.file.inode.cast_signed(),
                row.file.bytes.cast_signed(),
                row.file.mtime_nanos,
                row.head.map(|head| head.seq.cast_signed()),
                row.head.map(|head| head.sha256.to_string()),
            ))
            .map(drop)
    }
}
