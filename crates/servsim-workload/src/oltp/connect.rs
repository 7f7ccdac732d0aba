//! Connections to the server: Unix socket or TCP, no TLS.
//!
//! A numeric address or a socket directory needs no name service, which a statically linked
//! program does not have.

use tokio_postgres::{Client, Config, NoTls};

use crate::error::Context;
use crate::{Error, Result};

/// Where the server is.
#[derive(Clone, Debug, clap::Args)]
pub struct Server {
    /// Directory of the server's Unix socket, or a host address.
    #[arg(long, default_value = "/var/run/postgresql")]
    pub host: String,
    /// Port number (also part of the socket's name).
    #[arg(long, default_value_t = 5432)]
    pub port: u16,
    /// Database role.
    #[arg(long, default_value = "postgres")]
    pub user: String,
    /// Password, if the server asks for one (Unix sockets seldom do).
    #[arg(long, env = "PGPASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Database name; `load` creates it.
    #[arg(long, default_value = "servsim_oltp")]
    pub database: String,
}

impl Server {
    /// Opens a connection to the workload's database.
    ///
    /// # Errors
    /// [`Error::Environment`] when the server does not answer or refuses.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_to(&self.database).await
    }

    /// Opens a connection to another database of the same server.
    ///
    /// # Errors
    /// [`Error::Environment`] when the server does not answer or refuses.
    pub async fn connect_to(&self, database: &str) -> Result<Client> {
        let mut config = Config::new();
        config
            .host(&self.host)
            .port(self.port)
            .user(&self.user)
            .dbname(database)
            .application_name("servsim-oltp");
        if let Some(password) = &self.password {
            config.password(password);
        }
        let (client, connection) =
            config.connect(NoTls).await.map_err(|error| self.unreachable(database, &error))?;
        // A broken connection also fails the query in progress, which reports it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    fn unreachable(&self, database: &str, error: &tokio_postgres::Error) -> Error {
        let cause = std::error::Error::source(error).map(|source| format!(" ({source})")).unwrap_or_default();
        Error::Environment(format!(
            "no connection to database \"{database}\" at {} port {}: {error}{cause}; is the server running, and was \
             the database loaded?",
            self.host, self.port
        ))
    }

    /// Makes the database if it does not exist.
    ///
    /// # Errors
    /// When the server is not reachable or the role may not create databases.
    pub async fn create_database(&self) -> Result<()> {
        let client = self.connect_to("postgres").await?;
        let known = client
            .query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&self.database])
            .await
            .context("looking for the database")?;
        if known.is_none() {
            let name = self.database.replace('"', "\"\"");
            client
                .batch_execute(&format!("CREATE DATABASE \"{name}\""))
                .await
                .context("creating the database")?;
        }
        Ok(())
    }
}

/// The single value of a statement sent in one round trip (and so in one server transaction).
///
/// # Errors
/// When the statement fails or returns no row.
pub async fn value(client: &Client, statement: &str) -> Result<String> {
    let messages = client.simple_query(statement).await.context(statement)?;
    for message in messages {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            return Ok(row.get(0).unwrap_or_default().to_owned());
        }
    }
    Err(Error::Check(format!("no row from: {statement}")))
}

/// The single whole number of a statement sent in one round trip.
///
/// # Errors
/// When the statement fails or returns something else.
pub async fn number(client: &Client, statement: &str) -> Result<i64> {
    let text = value(client, statement).await?;
    text.parse().map_err(|_| Error::Check(format!("\"{text}\" is not a whole number, from: {statement}")))
}
