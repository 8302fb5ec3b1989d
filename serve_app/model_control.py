"""Bodies of the model repository extension: what stands in them, and what of it this server has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from serve_app.protocol.errors import MalformedRequestError, UnsupportedFeatureError

_KNOWN = ("unload_dependents",)  # there are no dependents: either value means the same


def parse_object(body: bytes | bytearray) -> dict[str, Any]:
    """The JSON object in a body; an empty body is an empty object.

    Raises:
        MalformedRequestError: If it is none.
    """
    try:
        parsed = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise MalformedRequestError(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise MalformedRequestError("the body must be a JSON object, or empty")
    return parsed


def parse_parameters(body: bytes | bytearray) -> dict[str, Any]:
    """``parameters`` of a load or unload request.

    Raises:
        MalformedRequestError: If there is no such body.
    """
    parameters = parse_object(body).get("parameters")
    if not isinstance(parameters, dict | None):
        raise MalformedRequestError("parameters must be a JSON object")
    return parameters or {}


def check_parameters(names: Iterable[str]) -> None:
    """Pass if this server has what the parameters ask for.

    Raises:
        UnsupportedFeatureError: For ``config``, ``file:...`` and whatever else there may be.
    """
    for name in names:
        if name not in _KNOWN:
            raise UnsupportedFeatureError(
                f"parameter {name[:100]!r} is not supported: models load from the server's own repository alone, with "
                "the config.yaml that lies there; nothing of a model comes with the request"
            )
