//! A private `PostgreSQL` cluster per test: own directory, Unix socket only, stopped on drop.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use servsim_workload::oltp::postgres::Server;
use tempfile::TempDir;

/// Where Debian and its relatives keep the server's programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A running server.
pub struct Cluster {
    directory: TempDir,
}

impl Cluster {
    /// Makes and starts a cluster without autovacuum, so that commit counts are exact, and without
    /// fsync, which matters when the machine stops but not when the server does.
    pub fn start() -> Self {
        assert!(
            Path::new(PROGRAMS).exists(),
            "these tests need a real server: apt-get install postgresql-15"
        );
        let directory = tempfile::Builder::new().prefix("servsim-pg").tempdir().unwrap();
        if let Some((user, group)) = postgres_account() {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let cluster = Cluster { directory };
        let data = cluster.data();
        let init = ["-N", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "-D"];
        succeed(server_program("initdb").args(init).arg(&data));
        let settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nautovacuum = off\nwal_level = minimal\n\
             max_wal_senders = 0\nmax_connections = 40\nfsync = off\nshared_buffers = 64MB\n",
            cluster.socket().display()
        );
        let file = data.join("postgresql.conf");
        fs::write(&file, fs::read_to_string(&file).unwrap() + &settings).unwrap();
        cluster.restart();
        cluster
    }

    /// A cluster with the workload loaded: `warehouses` of the paper's small warehouses.
    pub fn loaded(warehouses: i32) -> Self {
        let cluster = Cluster::start();
        let output = cluster.driver(&["load", "--preset", "small", "--warehouses", &warehouses.to_string()]);
        assert!(output.status.success(), "{output:?}");
        cluster
    }

    /// Starts the server (again).
    pub fn restart(&self) {
        let log = self.directory.path().join("log");
        let mut start = server_program("pg_ctl");
        let started = start
            .arg("-D")
            .arg(self.data())
            .arg("-l")
            .arg(&log)
            .args(["-s", "-w", "start"])
            .status()
            .unwrap();
        assert!(started.success(), "{}", fs::read_to_string(log).unwrap_or_default());
    }

    /// Directory of the server's Unix socket.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// The server's data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The postmaster's process identifier.
    pub fn postmaster(&self) -> Option<i32> {
        fs::read_to_string(self.data().join("postmaster.pid")).ok()?.lines().next()?.parse().ok()
    }

    /// The driver with the arguments and this server.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_servsim-oltp"));
        command.args(args).arg("--host").arg(self.socket());
        command
    }

    /// Runs the driver to its end.
    pub fn driver(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the driver with `--json`; the exit code and the report.
    pub fn report(&self, args: &[&str]) -> (i32, Value) {
        let output = self.command(args).arg("--json").output().unwrap();
        let report = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), report.unwrap_or_else(|_| panic!("{output:?}")))
    }

    /// Runs SQL text with psql and returns what it prints.
    pub fn sql(&self, text: &str) -> String {
        self.sql_in("servsim_oltp", text)
    }

    /// The same in another database.
    pub fn sql_in(&self, database: &str, text: &str) -> String {
        let mut psql = Command::new(Path::new(PROGRAMS).join("psql"));
        psql.arg("-h").arg(self.socket()).args([
            "-U",
            "postgres",
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        succeed(psql.args(["-d", database, "-c", text])).trim().to_owned()
    }

    /// The server as the library names it.
    pub fn server(&self) -> Server {
        let host = self.socket().to_str().unwrap().to_owned();
        let database = "servsim_oltp".to_owned();
        Server { host, port: 5432, user: "postgres".to_owned(), password: None, database }
    }

    /// Runs a future of the library to its end.
    pub fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// A number computed by SQL.
    pub fn number(&self, text: &str) -> f64 {
        self.sql(text).parse().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = server_program("pg_ctl");
        drop(stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]).output());
    }
}

/// The account the server must run under when the tests run as root, which it refuses.
fn postgres_account() -> Option<(u32, u32)> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let fields: Vec<&str> = accounts.lines().find(|line| line.starts_with("postgres:"))?.split(':').collect();
    Some((fields[2].parse().ok()?, fields[3].parse().ok()?))
}

fn server_program(name: &str) -> Command {
    let program = Path::new(PROGRAMS).join(name);
    let Some((user, group)) = postgres_account() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups").arg(program);
    command.current_dir("/");
    command
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
