//! Connections to the server: Unix socket or TCP, no TLS.
//!
//! A numeric address or a socket directory needs no name service, which a statically linked
//! program does not have.

use std::fs::File;

use tokio_postgres::{Client, Config, NoTls};

use super::calls::Calls;
use super::stream::Stream;
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
        Ok(self.connect_with_handle(database).await?.0)
    }

    /// Opens a connection to the workload's database, and tells what goes over it without the client library.
    ///
    /// # Errors
    /// [`Error::Environment`] when the server does not answer or refuses.
    pub async fn connect_for_calls(&self) -> Result<(Client, Calls)> {
        let (client, socket) = self.connect_with_handle(&self.database).await?;
        Ok((client, Calls::over(socket)))
    }

    async fn connect_with_handle(&self, database: &str) -> Result<(Client, File)> {
        let mut config = Config::new();
        config.user(&self.user).dbname(database).application_name("servsim-oltp");
        if let Some(password) = &self.password {
            config.password(password);
        }
        let stream = Stream::connect(&self.host, self.port)
            .map_err(|error| self.unreachable(database, &error.to_string()))?;
        let handle = stream.handle().map_err(|error| self.unreachable(database, &error.to_string()))?;
        let connected = config.connect_raw(stream, NoTls).await;
        let (client, connection) = connected.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|source| format!(" ({source})"));
            self.unreachable(database, &format!("{error}{}", cause.unwrap_or_default()))
        })?;
        // A broken connection also fails the query in progress, which reports it.
        tokio::spawn(async move { drop(connection.await) });
        Ok((client, handle))
    }

    fn unreachable(&self, database: &str, why: &str) -> Error {
        Error::Environment(format!(
            "no connection to database \"{database}\" at {} port {}: {why}; is the server running, and was \
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
