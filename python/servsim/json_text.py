"""Documents as JSON: what commands print, what results and caches keep. `documents` is where they are read."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any


def json_text(document: Mapping[str, Any]) -> str:
    r"""Return a document as JSON, one line for each value, with an end of line.

    JSON knows no number without bound, such as the response of a saturated model: it is null.

    Examples
    --------
    >>> json_text({"response": float("inf")})
    '{\n "response": null\n}\n'
    """
    try:
        return json.dumps(document, indent=1, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_with_nulls(document), indent=1, allow_nan=False) + "\n"


def _with_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_nulls(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value
