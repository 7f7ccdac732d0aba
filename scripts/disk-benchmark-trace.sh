#!/usr/bin/env bash
# Makes the packaged block trace of a benchmark: pgbench on PostgreSQL, its data on a loop device.
#
# Usage, as root, in a kernel with tracing: scripts/disk-benchmark-trace.sh OUTPUT.csv.xz [SECONDS]
# Needs postgresql, mkfs.ext4, losetup and the built .venv. Everything is made in a temporary folder
# and taken away again; tracefs is mounted if it is not, and then unmounted at the end.
#
# A small server is imitated: 16 MB of buffers, and files dropped from the page cache every second, so
# that reads reach the device. The loop device passes requests on with direct I/O.
set -euo pipefail

output=${1:?name the file to write, such as benchmark.csv.xz}
seconds=${2:-75}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | tail -1)")
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
tracefs=/sys/kernel/tracing
mounted=no
loop=

as_postgres() { runuser -u postgres -- env -C "$work" PGHOST="$work/run" PGUSER=postgres "$@"; }

clean_up() {
    as_postgres "$bin/pg_ctl" -D "$work/disk/data" -m immediate stop >/dev/null 2>&1 || true
    if mountpoint -q "$work/disk"; then umount "$work/disk"; fi
    if [ -n "$loop" ]; then losetup -d "$loop"; fi
    if [ "$mounted" = yes ]; then umount "$tracefs"; fi
    rm -rf "$work"
}
trap clean_up EXIT

mkdir "$work/disk" "$work/run"
chmod 755 "$work"
truncate -s 3G "$work/image"
mkfs.ext4 -q -F "$work/image"
loop=$(losetup --find --show --direct-io=on "$work/image")
mount "$loop" "$work/disk"
chown postgres "$work/disk" "$work/run"
as_postgres "$bin/initdb" -D "$work/disk/data" --auth=trust >/dev/null
cat >>"$work/disk/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$work/run'
shared_buffers = 16MB
max_wal_size = 128MB
checkpoint_timeout = 30s
CONF
as_postgres "$bin/pg_ctl" -D "$work/disk/data" -w -l "$work/run/log" start >/dev/null
as_postgres pgbench -q -i -s 60 postgres 2>/dev/null
sync -f "$work/disk"

if ! mountpoint -q "$tracefs"; then
    mount -t tracefs tracefs "$tracefs"
    mounted=yes
fi
"$here/.venv/bin/python" - "$work/disk/data/base" "$seconds" <<'PY' &
import os, pathlib, sys, time
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    for path in pathlib.Path(sys.argv[1]).rglob("*"):
        try:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass
    time.sleep(1)
PY
as_postgres pgbench -n -c 6 -R 60 -T "$((seconds - 2))" postgres >"$work/pgbench.log" 2>&1 &
"$here/.venv/bin/servsim" disk capture -o "$work/trace" --seconds "$seconds"
wait
grep -E "tps|latency average|number of transactions" "$work/pgbench.log" || true

"$here/.venv/bin/python" - "$work/trace" "$loop" "$output" <<'PY'
import lzma, os, sys
from servsim import disk

trace, loop, output = sys.argv[1:]
number = os.stat(loop).st_rdev
source = disk.Source(trace, format="tracefs", device=f"{os.major(number)},{os.minor(number)}")
columns, report = disk.load(source)
lines = ["arrival_us,op,lba,sectors,response_us"]
names = ("arrival_ns", "is_write", "lba", "sectors", "completion_ns")
for arrival, write, lba, sectors, done in zip(*(columns[name].tolist() for name in names), strict=True):
    lines.append(f"{arrival // 1000},{int(write)},{lba},{sectors},{(done - arrival) // 1000}")
packed = lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME)
with open(output, "wb") as file:
    file.write(packed)
print(f"{len(lines) - 1} requests, {len(packed)} bytes; {[(w['what'], w['count']) for w in report['warnings']]}")
PY
