"""From whatever a user writes a tuning as (dict, JSON, file, pasted attribute) to the fields of a `Tuning`, or one clear line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import TuningError, check

FIELDS = (
    "workgroup", "partial_reduction", "reduction", "thread", "lane_basis", "subgroup_basis", "workgroup_size", "subgroup_size",
    "split_reduction",
)  # fmt: skip
PIPELINES = ("VectorDistribute", "LLVMGPUVectorDistribute", "#iree_gpu.pipeline<VectorDistribute>")
REFUSED = {
    "mma_kind": "it asks for matrix instructions",
    "promote_operands": "it copies operands through shared memory",
    "promotion_types": "it copies operands through shared memory",
    "subgroup_m_count": "it spreads a matrix product; write subgroup_basis",
    "subgroup_n_count": "it spreads a matrix product; write subgroup_basis",
    "subgroup": "it is the tile of another pipeline; write subgroup_basis",
    "serial": "it is the step of an elementwise op",
    "expand_dims": "it reshapes the op; give the tuning for the loops as they are",
    "codegen_spec": "the schedule is this package's own",
    "gpu_pipeline_options": "they steer another pipeline",
}


def read(spec: object) -> dict[str, Any]:
    """The fields that `spec` gives, not yet checked for their values.

    >>> read('{"thread_basis": [[64], [0]], "pipeline": "LLVMGPUVectorDistribute"}')
    {'lane_basis': [[64], [0]]}
    """
    if isinstance(spec, Mapping):
        return _from_mapping(spec)
    if isinstance(spec, Path):
        return _from_file(spec)
    forms = "give a Tuning, dict, JSON text, the path of a JSON file or an MLIR attribute"
    check(isinstance(spec, str), f"tuning {show(spec)} is a {type(spec).__name__}: {forms}")
    from .tuning_text import is_attribute  # only for text: it takes 2 ms to import

    text = str(spec)
    check(text.strip() != "", f"the tuning is an empty string: {forms}")
    return _from_text(text, "tuning") if text.lstrip()[0] in "[{" or is_attribute(text) else _from_file(Path(text.strip()))


def show(value: object) -> str:
    """A value of the user's in an error message: one line, not a long one, lists as they are written.

    >>> show((4, 0))
    '[4, 0]'
    """
    try:
        text = repr(listed(value))
    except Exception:  # a number of too many digits, or a user's object whose repr fails
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def listed(value: Any) -> Any:
    """Tuples as lists, at every depth."""
    return [listed(v) for v in value] if isinstance(value, tuple) else value


def _from_mapping(given: Mapping[Any, Any]) -> dict[str, Any]:
    if "tuning" in given:  # an entry of a file of tunings: {"name": ..., "input": ..., "tuning": {...}}
        inner = given["tuning"]
        check(isinstance(inner, Mapping) and "tuning" not in inner, f"tuning {show(inner)} of the entry is not an object of tuning fields")
        return _from_mapping(inner)
    values = {}
    for key, value in given.items():
        if key == "pipeline":
            _check_pipeline(value)
            continue
        check(key not in REFUSED, f"key {key!r} is not supported: {REFUSED.get(key)}; leave it out")
        name = "lane_basis" if key == "thread_basis" else key
        if name not in FIELDS:
            import difflib  # only here: every call would pay for it

            near = difflib.get_close_matches(str(key), [*FIELDS, "thread_basis"], 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise TuningError(f"key {show(key)} is not known{hint}: the keys are {', '.join(FIELDS)}")
        check(name not in values, "lane_basis and thread_basis are two names of one field: give only one")
        values[name] = value
    return values


def _check_pipeline(pipeline: object) -> None:
    check(
        isinstance(pipeline, str) and pipeline in PIPELINES,
        f"pipeline {show(pipeline)} is not supported: use VectorDistribute (once called LLVMGPUVectorDistribute), or leave it out",
    )


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as e:
        forms = "the tuning itself as JSON (starts with {) or an MLIR attribute (starts with #)"
        raise TuningError(f"tuning file {_name(path)} does not exist: give the path of one, or {forms}") from e
    except (OSError, ValueError) as e:  # a directory, no permission, not UTF-8, a null byte in the name
        reason = (e.strerror or str(e)) if isinstance(e, OSError) else "it is not UTF-8 text, or its name holds a null byte"
        raise TuningError(f"tuning file {_name(path)} can't be read: {reason}") from e
    check(text.strip() != "", f"tuning file {_name(path)} is empty: write a JSON object into it")
    return _from_text(text, f"tuning file {_name(path)}")


def _name(path: Path) -> str:
    """A path in an error message: whole where it can be, and its end in any case."""
    text = repr(str(path))
    return text if len(text) <= 120 else "'..." + text[-117:]


def _from_text(text: str, where: str) -> dict[str, Any]:
    from .tuning_text import is_attribute, parse_attribute

    if is_attribute(text):
        return _from_mapping(parse_attribute(text))
    try:
        data = json.loads(text, object_pairs_hook=_no_doubles)
    except json.JSONDecodeError as e:
        raise TuningError(f"{where}: broken JSON at line {e.lineno}, column {e.colno}: {e.msg}") from e
    except (RecursionError, ValueError) as e:
        raise e if isinstance(e, TuningError) else TuningError(f"{where}: broken JSON: nested too deep, or a number too long") from e
    if isinstance(data, list) and data:
        check(len(data) == 1, f"{where} holds {len(data)} tunings: give one of them, by itself")
        data = data[0]
    check(isinstance(data, dict), f'{where}: {show(data)} is not a JSON object: write e.g. {{"partial_reduction": [1024], ...}}')
    return _from_mapping(data)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        check(keys.count(key) == 1, f"key {show(key)} is given {keys.count(key)} times: give it once")
    return dict(pairs)
