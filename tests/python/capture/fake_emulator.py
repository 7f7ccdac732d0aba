"""A program that plays the emulator for tests: `install(folder, plot)` puts it on a path.

The plots: `silent` never speaks on its control connection; `hangs` greets and then nothing
happens; `dies` ends at once with a reason; `powers-off` greets, says something on the console and
shuts down without ever reaching a checkpoint; `no-server`, `bad-client` and `early-client` do so as
well, and their console tells that a script of the workload failed or ended; `full-disk`
and `bad-disk` stop because the guest's disk cannot be written; `answers` greets and
answers every command, and nothing else happens.
"""

import sys
from pathlib import Path

_PROGRAM = """#!{python} -S
import json, os, signal, socket, sys, time
plot, version, help_text = {plot!r}, {version!r}, {help_text!r}
if sys.argv[1:] == ["--version"]:
    print("QEMU emulator version " + version)
    sys.exit(0)
if sys.argv[1:] == ["-help"]:
    print(help_text)
    sys.exit(0)
SAID = {{
    "no-server": "[    2.250000] random: ready\\r\\nstart: FATAL: no port is free\\r\\nbye\\r\\n"
    "servsim-guest: failed: the server did not start\\r\\n",
    "bad-client": "servsim-guest: facts written\\r\\nmy-client: rows must be 1 to 9\\r\\n"
    "[    3.100000] a word of the kernel\\r\\n"
    "servsim-guest: driver ended with code 2\\r\\nservsim-guest: done\\r\\n",
    "early-client": "servsim-guest: facts written\\r\\n"
    "servsim-guest: driver ended with code 0\\r\\nservsim-guest: done\\r\\n",
}}
if plot == "dies":
    print("qemu-system-x86_64: no such thing", file=sys.stderr)
    sys.exit(1)
words = dict(enumerate(sys.argv))
option = next(word for word in sys.argv if word.startswith("socket,id=qmp,fd="))
console = next(word for word in sys.argv if word.startswith("file,id=console,path="))
if plot == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({mark!r}, "w").write(str(os.getpid()))
if plot == "silent":
    time.sleep(600)
connection = socket.socket(fileno=int(option.rpartition("=")[2]))
def say(message):
    connection.sendall(json.dumps(message).encode() + b"\\n")
say({{"QMP": {{"version": {{}}, "capabilities": []}}}})
connection.recv(4096)
say({{"return": {{}}}})
with open(console.rpartition("=")[2], "a") as file:
    file.write("servsim-guest: booted\\r\\n" + SAID.get(plot, ""))
if plot == "powers-off" or plot in SAID:
    time.sleep(0.2)
    say({{"event": "SHUTDOWN"}})
    sys.exit(0)
if plot.endswith("-disk"):
    full = plot == "full-disk"
    reason = "No space left on device" if full else "Input/output error"
    data = {{"device": "root", "operation": "write", "action": "stop", "nospace": full, "reason": reason}}
    say({{"event": "BLOCK_IO_ERROR", "data": data}})
    say({{"event": "STOP"}})
if plot == "answers" or plot.endswith("-disk"):
    while connection.recv(4096):
        say({{"return": {{"status": "paused"}}}})
time.sleep(600)
"""


def install(folder: Path, plot: str = "hangs", version: str = "10.0.2", help_text: str = "-plugin file") -> Path:
    """Write the program; when run as an emulator it leaves its process id in `folder/pid`."""
    program = folder / "qemu-system-x86_64"
    text = _PROGRAM.format(
        python=sys.executable, plot=plot, version=version, help_text=help_text, mark=str(folder / "pid")
    )
    program.write_text(text)
    program.chmod(0o755)
    return program
