"""A small writer of files as the Java Modelling Tools write them, with the elements that models need."""

STRATEGY = "jmt.engine.NetStrategies"


def value(name: str, content: object) -> str:
    return f'<subParameter classPath="x" name="{name}"><value>{content}</value></subParameter>'


def exponential(rate: float) -> str:
    return law("Exponential", f"{value('lambda', rate)}")


def law(name: str, parameters: str) -> str:
    return (
        f'<subParameter classPath="{STRATEGY}.ServiceStrategies.ServiceTimeStrategy" name="t">'
        f'<subParameter classPath="jmt.engine.random.{name}" name="{name}"/>'
        f'<subParameter classPath="p" name="distrPar">{parameters}</subParameter></subParameter>'
    )


def by_class(name: str, values: dict[str, str]) -> str:
    rows = "".join(f"<refClass>{c}</refClass>{v}" for c, v in values.items())
    return f'<parameter array="true" classPath="x" name="{name}">{rows}</parameter>'


def probabilities(rows: dict[str, float]) -> str:
    entries = "".join(
        f'<subParameter classPath="e" name="e">{value("stationName", s)}{value("probability", p)}</subParameter>'
        for s, p in rows.items()
    )
    return (
        f'<subParameter classPath="{STRATEGY}.RoutingStrategies.EmpiricalStrategy" name="r">'
        f'<subParameter classPath="e" name="a">{entries}</subParameter></subParameter>'
    )


RANDOM = f'<subParameter classPath="{STRATEGY}.RoutingStrategies.RandomStrategy" name="Random"/>'


def router(values: dict[str, str]) -> str:
    return f'<section className="Router">{by_class("RoutingStrategy", values)}</section>'


def queue(classes: list[str], size: int = -1, put: str = "TailStrategy", full: str = "drop") -> str:
    puts = {c: f'<subParameter classPath="{STRATEGY}.QueuePutStrategies.{put}" name="p"/>' for c in classes}
    drops = {c: value("dropStrategy", full) for c in classes}
    return (
        f'<section className="Queue"><parameter classPath="i" name="size"><value>{size}</value></parameter>'
        f"{by_class('dropStrategies', drops)}{by_class('QueuePutStrategy', puts)}</section>"
    )


def server(laws: dict[str, str], kind: str = "Server", count: int = 1) -> str:
    shares = {c: f'<subParameter classPath="{STRATEGY}.PSStrategies.EPSStrategy" name="s"/>' for c in laws}
    return (
        f'<section className="{kind}"><parameter classPath="i" name="maxJobs"><value>{count}</value></parameter>'
        f"{by_class('ServiceStrategy', laws)}{by_class('PSStrategy', shares)}</section>"
    )


def switch(rows: dict[str, dict[str, float]]) -> str:
    def cells(row: dict[str, float]) -> str:
        made = "".join("<refClass>" + c + "</refClass>" + value("cell", p) for c, p in row.items())
        return f'<subParameter classPath="r" name="row">{made}</subParameter>'

    return (
        f'<section className="ClassSwitch">{by_class("matrix", {c: cells(row) for c, row in rows.items()})}</section>'
    )


def jsim(classes: str, nodes: dict[str, str], connections: list[tuple[str, str]]) -> str:
    made = "".join(f'<node name="{name}">{sections}</node>\n' for name, sections in nodes.items())
    lines = "".join(f'<connection source="{a}" target="{b}"/>' for a, b in connections)
    head = '<?xml version="1.0" encoding="ISO-8859-1"?>'
    return f'{head}\n<archive name="m"><sim>\n{classes}\n{made}{lines}</sim></archive>'


def open_station(arrivals: str, station: str) -> str:
    nodes = {
        "Q": station + router({"a": RANDOM}),
        "Sink": '<section className="JobSink"/>',
        "Source": f'<section className="RandomSource">{by_class("ServiceStrategy", {"a": arrivals})}</section>'
        f'<section className="ServiceTunnel"/>{router({"a": RANDOM})}',
    }
    user = '<userClass name="a" priority="0" referenceSource="Source" type="open"/>'
    return jsim(user, nodes, [("Q", "Sink"), ("Source", "Q")])


def jmva(classes: dict[str, str], stations: dict[str, tuple[str, dict[str, tuple[float, float]]]], at: str) -> str:
    """Return a JMVA file; a station has its element, and by class the time per visit and the visits."""
    out = f'<model><parameters><classes number="{len(classes)}">'
    out += "".join(f"<{kind.replace('class', 'class name=' + chr(34) + c + chr(34))}/>" for c, kind in classes.items())
    out += f'</classes><stations number="{len(stations)}">'
    for name, (kind, rows) in stations.items():
        times = "".join(f'<servicetime customerclass="{c}">{t}</servicetime>' for c, (t, _) in rows.items())
        visits = "".join(f'<visit customerclass="{c}">{v}</visit>' for c, (_, v) in rows.items())
        out += (
            f'<{kind} name="{name}" servers="1"><servicetimes>{times}</servicetimes><visits>{visits}</visits></{kind}>'
        )
    references = "".join(f'<Class name="{c}" refStation="{at}"/>' for c in classes)
    return f"{out}</stations><ReferenceStation>{references}</ReferenceStation></parameters></model>"
