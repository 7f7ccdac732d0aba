//! `SQLite` under the workload: a library in this program, and so a database without a server.
//!
//! Each user has a connection of its own on its own thread. The database keeps a write-ahead log, so that those who only
//! read never wait; of those who may write one works at a time, from BEGIN to COMMIT, which is the engine's own rule. They wait
//! their turn at a mutex of this program: the engine's own way to wait is to sleep a while and try again, up to a tenth of a
//! second, with nobody's turn before another's.
//!
//! Tables, keys and statements are `PostgreSQL`'s, translated; amounts are kept in cents, because the engine has no
//! decimal numbers. Commits and rollbacks are counted by the engine's hooks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection as Database, OpenFlags, ToSql};
use serde_json::Value;

use super::engine::{Control, Counting, Engine, Outcome, RoundTrip, Session, TextRow};
use super::request::TransactionInput;
use super::rows::{Population, Table};
use super::schema::{KEYS, NAMES, TABLES};
use super::statements::{self, Arguments, Columns, Connection, Sql, STATEMENTS};
use crate::cpu;
use crate::error::Context;
use crate::{Error, Result};

/// What differs from `PostgreSQL`'s dialect, and what stands there. Amounts are cents already.
const DIALECT: [(&str, &str); 9] = [
    ("(i_price * 100)::int", "i_price"),
    ("(ol_amount * 100)::int", "ol_amount"),
    ("::int * 0.01", ""),
    ("::bigint * 0.01", ""),
    ("::float8", ""),
    ("::int", ""),
    (" FOR UPDATE", ""),
    (" WITH (fillfactor = 50)", ""),
    ("$", "?"),
];

/// A statement of `PostgreSQL`'s in this engine's words.
fn translated(sql: &str) -> String {
    DIALECT.iter().fold(sql.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// A primary key, added to a table that has its rows already, which this engine does not know.
fn key(line: &str) -> String {
    match line.strip_prefix("ALTER TABLE ").and_then(|rest| rest.split_once(" ADD PRIMARY KEY ")) {
        Some((table, columns)) => format!("CREATE UNIQUE INDEX {table}_key ON {table} {columns}"),
        None => line.to_owned(),
    }
}

/// A database in a file.
#[derive(Clone, Debug)]
pub struct Sqlite {
    file: PathBuf,
    /// The engine's own settings: pragmas with their values.
    pragmas: Vec<(String, String)>,
    shared: Arc<Shared>,
}

/// What all connections of this program share.
#[derive(Debug, Default)]
struct Shared {
    /// Held by the one who may write.
    turn: Mutex<()>,
    commits: AtomicI64,
    rollbacks: AtomicI64,
}

impl Sqlite {
    /// A database in this file, with pragmas as `NAME=VALUE`.
    ///
    /// # Errors
    /// [`Error::Usage`] naming a pragma that the engine does not know: it would pass over it in silence.
    pub fn new(file: PathBuf, pragmas: &[String]) -> Result<Self> {
        let known = Database::open_in_memory().context("asking for the pragmas")?;
        let mut settings = Vec::new();
        for pragma in pragmas {
            let plain =
                |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let (name, value) = pragma
                .split_once('=')
                .filter(|(name, value)| !value.is_empty() && plain(name) && plain(value))
                .ok_or_else(|| {
                    Error::Usage(format!(
                        "the pragma {pragma:?} must be NAME=VALUE, such as synchronous=NORMAL"
                    ))
                })?;
            let found = "SELECT count(*) FROM pragma_pragma_list WHERE name = lower(?1)";
            let count: i64 =
                known.query_row(found, [name], |row| row.get(0)).context("asking for the pragmas")?;
            if count == 0 {
                return Err(Error::Usage(format!("SQLite {} has no pragma {name:?}", rusqlite::version())));
            }
            settings.push((name.to_owned(), value.to_owned()));
        }
        Ok(Sqlite { file, pragmas: settings, shared: Arc::default() })
    }

    fn open(&self, flags: OpenFlags) -> Result<Database> {
        let unreadable = |error: rusqlite::Error| {
            let file = self.file.display();
            Error::Environment(format!("no database in {file}: {error}; was it loaded?"))
        };
        let database = Database::open_with_flags(&self.file, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(unreadable)?;
        // The first look at the file: whether it is a database at all.
        database.pragma_update(None, "journal_mode", "WAL").map_err(unreadable)?;
        // A transaction is durable when its reply is sent.
        database.pragma_update(None, "synchronous", "FULL").map_err(unreadable)?;
        for (name, value) in &self.pragmas {
            database.pragma_update(None, name, value).context(&format!("setting the pragma {name}"))?;
        }
        database.set_prepared_statement_cache_capacity(STATEMENTS.len() + 8);
        Ok(database)
    }

    /// A connection whose commits and rollbacks are counted.
    fn counted(&self) -> Result<Database> {
        let database = self.open(OpenFlags::empty())?;
        let (shared, other) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let goes_on = false;
        let commit = move || {
            shared.commits.fetch_add(1, Ordering::Relaxed);
            goes_on
        };
        database.commit_hook(Some(commit));
        database.rollback_hook(Some(move || {
            other.rollbacks.fetch_add(1, Ordering::Relaxed);
        }));
        Ok(database)
    }

    fn fill_tables(&self, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<i64> {
        if let Some(folder) = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| Error::Environment(format!("{}: {error}", folder.display())))?;
        }
        let mut database = self.open(OpenFlags::SQLITE_OPEN_CREATE)?;
        for name in NAMES {
            database.execute_batch(&format!("DROP TABLE IF EXISTS {name}")).context("dropping tables")?;
        }
        // What is lost is loaded anew: no need to wait for the disk.
        database.pragma_update(None, "synchronous", "OFF").context("starting to load")?;
        let transaction = database.transaction().context("starting to load")?;
        transaction.execute_batch(&translated(TABLES)).context("creating tables")?;
        for table in Table::ALL {
            progress(table.name());
            insert(&transaction, population, table).context(&format!("loading {}", table.name()))?;
        }
        progress("keys and indexes");
        for line in KEYS.lines().filter(|line| !line.starts_with("--")) {
            transaction.execute_batch(&key(line.trim_end_matches(';'))).context("making keys")?;
        }
        transaction.commit().context("committing the load")?;
        progress("statistics and checkpoint");
        database
            .execute_batch("ANALYZE; PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)")
            .context("gathering statistics")?;
        let bytes = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        database.query_row(bytes, [], |row| row.get(0)).context("asking for the size")
    }
}

/// Inserts the rows of a table. A text becomes a number where the column is one; what has two decimals becomes cents.
fn insert(database: &Database, population: &Population, table: Table) -> rusqlite::Result<()> {
    let mut columns = database.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let values: Vec<String> = columns
        .query_map([table.name()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .zip(1..)
        .map(|(column, place)| {
            let (_, kind): (String, String) = column?;
            let amount = kind.starts_with("numeric(") && kind.ends_with(",2)");
            Ok(if amount { format!("CAST(round(?{place} * 100) AS integer)") } else { format!("?{place}") })
        })
        .collect::<rusqlite::Result<_>>()?;
    let sql = format!("INSERT INTO {} VALUES ({})", table.name(), values.join(", "));
    let mut statement = database.prepare(&sql)?;
    let mut text = Vec::new();
    for part in 1..=population.parts(table) {
        text.clear();
        population.append(&mut text, table, part);
        for line in String::from_utf8_lossy(&text).lines() {
            let fields = line.split('\t').map(|field| (field != "\\N").then_some(field));
            statement.execute(rusqlite::params_from_iter(fields))?;
        }
    }
    Ok(())
}

impl Engine for Sqlite {
    type Session = SqliteSession;
    type Control = SqliteControl;
    type Memory = ();
    const NAME: &'static str = "SQLite";

    async fn control(&self) -> Result<SqliteControl> {
        Ok(SqliteControl { database: self.open(OpenFlags::empty())?, shared: Arc::clone(&self.shared) })
    }

    async fn session(&self, _round_trip: RoundTrip) -> Result<SqliteSession> {
        let texts = STATEMENTS.map(translated).to_vec();
        let session = SqliteSession { database: self.counted()?, texts, shared: Arc::clone(&self.shared) };
        for text in &session.texts {
            session.database.prepare_cached(text).context("preparing the statements")?;
        }
        Ok(session)
    }

    async fn fill(&self, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<i64> {
        self.fill_tables(population, progress)
    }

    async fn prewarm(&self) -> Result<()> {
        let read = std::fs::File::open(&self.file)
            .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
        read.map(drop).map_err(|error| Error::Environment(format!("{}: {error}", self.file.display())))
    }

    async fn memory(&self) -> Result<()> {
        Ok(())
    }

    async fn describe(&self, _control: &SqliteControl, _before: &()) -> Result<Value> {
        Ok(Value::Null)
    }
}

/// A user's connection.
pub struct SqliteSession {
    database: Database,
    /// The statements by [`Sql`].
    texts: Vec<String>,
    shared: Arc<Shared>,
}

impl Session for SqliteSession {
    /// The engine is in this program.
    fn process(&self) -> u32 {
        std::process::id()
    }

    fn server(&self) -> cpu::Server {
        cpu::Server::Elsewhere
    }

    fn nanoseconds(&self) -> u64 {
        cpu::thread_nanoseconds()
    }

    fn is_live(&self) -> bool {
        true
    }

    async fn publish(&self) -> Result<()> {
        Ok(())
    }

    async fn execute(&self, request: &TransactionInput, districts: i32) -> Result<Outcome> {
        let _turn: Option<MutexGuard<'_, ()>> =
            request.kind().writes().then(|| self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let outcome = statements::execute(self, request, districts).now_or_never();
        let outcome = outcome.expect("a library replies before it returns");
        if outcome.is_err() && !self.database.is_autocommit() {
            // The run is void; the next one's turn must not find this transaction open.
            drop(self.database.execute_batch("ROLLBACK"));
        }
        outcome
    }
}

impl Connection for SqliteSession {
    type Row = Vec<Cell>;

    async fn begin(&self, writes: bool) -> Result<()> {
        let begin = if writes { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.run(begin).context("beginning a transaction")
    }

    async fn roll_back(&self) -> Result<()> {
        self.run("ROLLBACK").context("rolling back")
    }

    async fn rows(&self, sql: Sql, arguments: Arguments<'_>) -> Result<Vec<Vec<Cell>>> {
        self.query(&self.texts[sql as usize], arguments).context_of(|| format!("executing {sql:?}"))
    }
}

impl SqliteSession {
    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.database.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn query(&self, sql: &str, arguments: Arguments<'_>) -> rusqlite::Result<Vec<Vec<Cell>>> {
        let mut statement = self.database.prepare_cached(sql)?;
        let columns = statement.column_count();
        let arguments: Vec<&dyn ToSql> = arguments.iter().map(|argument| argument.for_sqlite()).collect();
        let rows = statement
            .query_map(arguments.as_slice(), |row| (0..columns).map(|column| row.get(column)).collect())?;
        rows.collect()
    }
}

impl Columns for Vec<Cell> {
    fn integer(&self, column: usize) -> i64 {
        match self[column] {
            Cell::Integer(number) => number,
            ref other => panic!("column {column} is {other:?}, not a whole number"),
        }
    }

    fn real(&self, column: usize) -> f64 {
        match self[column] {
            Cell::Real(number) => number,
            Cell::Integer(number) => number as f64,
            ref other => panic!("column {column} is {other:?}, not a number"),
        }
    }

    fn text(&self, column: usize) -> &str {
        match &self[column] {
            Cell::Text(text) => text,
            other => panic!("column {column} is {other:?}, not a text"),
        }
    }
}

/// The connection that asks between the phases.
pub struct SqliteControl {
    database: Database,
    shared: Arc<Shared>,
}

impl Control for SqliteControl {
    const SNAPSHOT: &'static str = "BEGIN";
    // Hooks hear of transactions that may write, and of this connection's none is counted.
    const COUNTING: Counting = Counting { reads: false, per_user: 0, control: 0 };

    async fn row(&self, statement: &str) -> Result<Option<TextRow>> {
        self.first_row(statement).context(statement)
    }

    async fn batch(&self, statements: &str) -> Result<()> {
        self.database.execute_batch(statements).context(statements)
    }

    async fn counts(&self) -> Result<(i64, i64)> {
        Ok((self.shared.commits.load(Ordering::Relaxed), self.shared.rollbacks.load(Ordering::Relaxed)))
    }

    async fn has_others(&self) -> Result<bool> {
        Ok(false)
    }
}

impl SqliteControl {
    fn first_row(&self, sql: &str) -> rusqlite::Result<Option<TextRow>> {
        let mut statement = self.database.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let text = |value: ValueRef<'_>| match value {
            ValueRef::Null | ValueRef::Blob(_) => None,
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(number) => Some(number.to_string()),
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        };
        let Some(row) = rows.next()? else { return Ok(None) };
        (0..columns).map(|column| row.get_ref(column).map(text)).collect::<rusqlite::Result<_>>().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_other_dialect_is_left() {
        for sql in STATEMENTS.iter().chain([&TABLES]) {
            let ours = translated(sql);
            for theirs in ["::", "$", "FOR UPDATE", "fillfactor"] {
                assert!(!ours.contains(theirs), "{theirs} in: {ours}");
            }
        }
    }

    #[test]
    fn a_pragma_that_the_engine_does_not_know_is_refused() {
        let given = |pragma: &str| Sqlite::new(PathBuf::from("x.db"), &[pragma.to_owned()]);
        assert_eq!(given("synchronous=NORMAL").unwrap().pragmas, [("synchronous".into(), "NORMAL".into())]);
        for (pragma, word) in
            [("shared_buffers=1GB", "no pragma"), ("synchronous", "NAME=VALUE"), ("a=b;c", "NAME=VALUE")]
        {
            let error = given(pragma).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains(word), "{error}");
        }
    }
}
