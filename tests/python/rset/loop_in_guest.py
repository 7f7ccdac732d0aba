"""The first process of a guest that applies advice: a kernel before it and after it, by `servsim rset run`.

`tests/python/test_rset_loop.py` boots it with a placement file for each kernel. How far away what is fetched lies is
counted outside, by a plug-in of the emulator, from the first mark of a run to the last.
"""

import json
from pathlib import Path

import in_guest

REPORT = Path("/tmp/report")
#: The file's four processors: one of each node.
ONE_OF_EACH = "0,4,8,12"


def applied(words, placement):
    """Run a kernel with a placement file; return pages by rule, as the preloaded library found them."""
    REPORT.unlink(missing_ok=True)
    options = ["--physcpubind", ONE_OF_EACH, "--placement", placement, "--report", str(REPORT)]
    said = in_guest.servsim("run", *options, "--", "/servsim-kernel", *words, "--json")
    assert json.loads(said[said.index("{") :])["valid"], said
    return json.loads(REPORT.read_text())


def told(report):
    """Return what a report says in two numbers: pages that went by rules, and those of them that lie elsewhere."""
    pages = sum(sum(rule["pages_per_node"].values()) for rule in report["rules"]) + sum(
        report["pages_per_node"].values()
    )
    elsewhere = sum(rule["pages_elsewhere"] for rule in report["rules"]) + report["pages_elsewhere"]
    return {"pages": pages, "elsewhere": elsewhere}


def a_kernel(name, words):
    """Return a check of one kernel."""

    def check():
        before, after = applied(words, "/before.toml"), applied(words, f"/{name}.toml")
        return json.dumps({"before": told(before), "after": told(after), "rules": after["rules"]})

    check.__name__ = name
    return check


if __name__ == "__main__":
    in_guest.main([a_kernel(*kernel) for kernel in json.loads(Path("/kernels.json").read_text()).items()])
