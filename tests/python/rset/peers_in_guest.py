"""The first process of a guest in which this project's tools stand beside numactl, hwloc and libnuma.

`tests/python/test_rset_peers.py` boots it. A program allocates on processor 5 (node 1) and writes on processor 10
(node 2); what each tool can wish of it is checked page by page.
"""

import json
import subprocess

import in_guest

LIBRARY = "/servsim/target/release/libservsim_rset_preload.so"
ENVIRONMENT = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}
#: What is wished: whether a page may lie in a node.
WISHES = {
    "the allocating thread's node": lambda page, node: node == 1,
    "the writing thread's node": lambda page, node: node == 2,
    "another node than the allocating thread's": lambda page, node: node == 2,
    "node 3": lambda page, node: node == 3,
    "stripes of a page": None,
    "stripes of four pages": None,
}
#: How each tool says it, where it can: words before the program, or the preloaded library's policy.
TOOLS = {
    "servsim rset run": {
        "the allocating thread's node": "local",
        "the writing thread's node": "touch",
        "another node than the allocating thread's": "remote",
        "node 3": "node(3)",
        "stripes of a page": "striped(1)",
        "stripes of four pages": "striped(4)",
    },
    "numactl": {
        "the writing thread's node": ["numactl", "--localalloc"],
        "node 3": ["numactl", "--membind=3"],
        "stripes of a page": ["numactl", "--interleave=all"],
    },
    "hwloc-bind": {
        "the writing thread's node": ["hwloc-bind", "--membind", "node:0-3", "--mempolicy", "firsttouch"],
        "node 3": ["hwloc-bind", "--membind", "node:3", "--mempolicy", "bind"],
        "stripes of a page": ["hwloc-bind", "--membind", "node:0-3", "--mempolicy", "interleave"],
    },
}


def nodes_by(how):
    """Return the node of each page when a tool places them."""
    words, environment = ["/where", "5", "10"], dict(ENVIRONMENT)
    if isinstance(how, str):
        environment |= {"LD_PRELOAD": LIBRARY, "SERVSIM_RSET_POLICY": how}
    else:
        words = [*how, "--", *words] if how[0] == "hwloc-bind" else [*how, *words]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return [int(digit) for digit in done.stdout]


def share(wish, nodes):
    """Return the share of pages that lie as wished; of stripes by the turn that fits best."""
    rule = WISHES[wish]
    if rule is not None:
        return sum(rule(page, node) for page, node in enumerate(nodes)) / len(nodes)
    stride = 1 if wish == "stripes of a page" else 4
    shifts = range(4 * stride)
    return max(sum((page + by) // stride % 4 == node for page, node in enumerate(nodes)) for by in shifts) / len(nodes)


def what_each_can_express():
    found = {
        tool: {wish: round(share(wish, nodes_by(how)), 3) for wish, how in wishes.items()}
        for tool, wishes in TOOLS.items()
    }
    return json.dumps(found)


def time_per_call():
    done = subprocess.run(["/per_call"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.dumps(dict(line.split(": ") for line in done.stdout.splitlines()))


if __name__ == "__main__":
    in_guest.main([what_each_can_express, time_per_call])
