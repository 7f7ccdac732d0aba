# Where PostgreSQL is, and who runs it; sourced by load and start. `fail` says why there is no server,
# `ends` how it ends with the script, as words of setpriv.
bin=${servsim_postgres:-/usr/lib/postgresql/15}/bin
cluster=${servsim_data:-/var/lib/servsim}/cluster
if [ ! -x "$bin/postgres" ]; then
    fail "PostgreSQL is not installed ($bin/postgres is missing): apt-get install postgresql-15, or give --postgres PREFIX of your own build"
fi
# PostgreSQL refuses to run as root.
as_server="setpriv $ends"
owner=$(id -un)
if [ "$owner" = root ]; then
    owner=postgres
    id "$owner" >/dev/null 2>&1 ||
        fail "PostgreSQL refuses to run as root, and the account postgres is missing: apt-get install postgresql-15"
    as_server="$as_server --reuid postgres --regid postgres --init-groups"
fi
$as_server test -x "${cluster%/*}" ||
    fail "the account $owner, which must run PostgreSQL, may not enter ${cluster%/*}: set SERVSIM_CACHE to a folder that it can reach"
# Waits until the server answers at the socket in the folder $1.
answers() {
    until "$bin/pg_isready" -q -h "$1" -p "${servsim_port:-5432}" -U postgres -d postgres; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
}
