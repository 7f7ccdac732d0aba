"""``servsim doctor``: what is installed, what works here, what to install."""

from typing import Annotated

import typer

from servsim.cli.printing import print_json
from servsim.cli.terminal import paint
from servsim.errors import EnvironmentProblem


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is installed, what works here, and what to install.

    Exits with 3 when something that the main job needs is missing: capturing a workload, simulating
    it, reporting. Nothing is changed.
    """
    from servsim.environment import as_document, examine

    findings = examine()
    document = as_document(findings)
    if as_json:
        print_json(document)
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            mark, colour = ("ok", "good") if finding.ok else ("missing", "bad" if finding.required else "warning")
            print(f"{paint(f'{mark:<8}', colour)}{finding.name:<{width}}  {finding.found}")
            if not finding.ok:
                use = f"needed for {finding.purpose}" if finding.required else f"only for {finding.purpose}"
                print(f"{'':8}{'':{width}}  {use}: {finding.remedy}")
    if not document["ready"]:
        missing = [finding.name for finding in findings if finding.required and not finding.ok]
        raise EnvironmentProblem(
            f"the main job needs what is missing here: {', '.join(missing)}; "
            "`servsim quickstart` uses the shipped trace instead of a capture"
        )


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(doctor)
