"""A table of NumPy calls: `reduce` gives the same shape, type and values, or an error of the same class."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matrix import EXACT

from iree_reduce_plugin import reduce
from iree_reduce_plugin.ops import OPS as BY_NAME

OPS = tuple(BY_NAME)
TYPES = ("f4", "i2", "u1", "?")
MORE_TYPES = ("f8", "f2", "i1", "i4", "i8", "u2", "u4", "u8")
WHERE = [True, False, True, True, False]
EMPTY = ((0, 5), (3, 0), (0,))


def _wide(x):
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _squared(x, dtype=None, **options):
    """NumPy would wrap the squares of a short integer before it adds them up."""
    wide = np.sum(x, dtype=dtype).dtype
    return np.sum(np.square(x.astype(wide)), dtype=wide, **options)


def _norm(x, order, axis=-1, keepdims=False, initial=0, dtype=None, where=True):
    x = _wide(x if dtype is None else x.astype(dtype))
    sizes = np.sum(np.abs(x) if order == 1 else np.square(x.astype("f8")), axis=axis, keepdims=keepdims, initial=initial, where=where)
    return (sizes if order == 1 else np.sqrt(sizes)).astype(x.dtype)


def last(function):
    """The last index, by the first one of the reverse."""

    def call(x, axis=-1, **options):
        function(x, axis=axis, **options)  # for its errors
        turned = np.flip(x) if axis is None else np.flip(x, axis)
        return (x.size if axis is None else x.shape[axis]) - 1 - function(turned, axis=axis, **options)

    return call


CALLS = {
    "sum": np.sum,
    "prod": np.prod,
    **EXACT,
    "mean": np.mean,
    "sum_of_squares": _squared,
    "l1": lambda x, **options: _norm(x, 1, **options),
    "l2": lambda x, **options: _norm(x, 2, **options),
    "log_sum": lambda x, **options: np.log(np.sum(x, **options)),
    "argmax": np.argmax,
    "argmin": np.argmin,
    "argmax_last": last(np.argmax),
    "argmin_last": last(np.argmin),
    "ptp": lambda x, **options: np.ptp(x, **options),
    "logsumexp": lambda x, **options: np.logaddexp.reduce(_wide(x), **options),
    "var": np.var,
    "std": np.std,
}

TABLE = [
    *((op, (3, 5), dtype, {}) for i, op in enumerate(OPS) for dtype in (TYPES[::2], TYPES[1::2])[i % 2]),
    *((op, (3, 5), MORE_TYPES[i % len(MORE_TYPES)], {"axis": None, "keepdims": i % 2 == 0}) for i, op in enumerate(OPS)),
    *((op, shape, dtype, {}) for op in OPS for shape, dtype in zip(EMPTY, ("f4", "i4", "?"), strict=True)),
    *((op, (3, 5), "i4", {"axis": 2}) for op in OPS),
    *((op, (3, 5), "i4", {"axis": (1, 1)}) for op in OPS if op != "count_nonzero" and not op.startswith("arg")),
    *((op, (4,), dtype, {"initial": initial}) for op in ("sum", "max", "fmin", "bitwise_or") for dtype, initial in (("i4", 7), ("u1", 9))),
    *((op, (4,), "f4", {"initial": 2}) for op in ("sum", "prod", "min", "fmax", "sum_of_squares", "l1", "l2", "log_sum")),
    *((op, (0,), "i4", {"initial": 4}) for op in ("max", "min", "fmax", "fmin", "bitwise_and", "sum", "prod")),
    *((op, (4,), "i4", {"initial": 1}) for op in ("any", "all", "count_nonzero", "mean")),
    *((op, (4,), "i4", {"dtype": "f8"}) for op in ("any", "all", "count_nonzero")),
    *((op, (4,), "f4", {}) for op in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *((op, (5, 3), TYPES[i % 4], {"axis": 0}) for i, op in enumerate(OPS[::3])),
    ("l2", (2, 5, 3), "f4", {"axis": (0, 2)}),
    *((op, (2, 5, 3), dtype, {"axis": 1, "ddof": 1}) for op in ("var", "std") for dtype in ("f4", "i2")),
    *((op, (2, 5, 3), "f4", {"axis": None, "keepdims": True}) for op in ("argmax", "var", "ptp")),
    ("argmin", (2, 5, 3), "u1", {"axis": 1, "keepdims": True}),
    *((op, (3, 5), TYPES[i % 3], {"where": WHERE}) for i, op in enumerate(OPS) if not op.startswith("logsum")),
    *((op, (3, 5), "f4", {"where": WHERE, "initial": 2}) for op in ("sum", "prod", "max", "min", "fmax", "fmin", "l2")),
    *((op, (3, 5), "f8", {"where": False, "keepdims": True}) for op in ("sum", "mean", "var", "std", "any", "all")),
    *((op, (5, 3), "f4", {"where": WHERE[:3], "axis": 0}) for op in ("sum", "mean", "var")),
    *((op, (3, 5), "f4", {"where": WHERE, "ddof": ddof}) for op in ("var", "std") for ddof in (1, 3)),
    ("logsumexp", (3, 5), "f4", {"where": WHERE}),
    ("sum", (3, 1), "f4", {"where": False}),
    ("mean", (3, 1), "f4", {"where": True}),
    ("sum", (3, 5), "f4", {"where": [1, 0, 1, 1, 0]}),
    ("sum", (3, 5), "f4", {"where": WHERE[:3]}),
    *((op, (), dtype, {"axis": None}) for op, dtype in zip(OPS, (TYPES * 9), strict=False) if op not in ("ptp", "bitwise_and")),
    *(("sum", (), "f4", {"axis": axis}) for axis in (0, -1, 1, (), (0,))),
    *((op, (), "f4", {"axis": -1}) for op in ("max", "argmax", "any", "count_nonzero")),
    ("std", (3,), "f8", {"ddof": 3}),
    ("logsumexp", (2, 5, 3), "f4", {"axis": (0, 2)}),
    ("sum", (2, 5), "i2", {"dtype": "i1"}),
    ("sum", (2, 5), "u1", {"dtype": "u2"}),
    ("sum", (2, 5), "?", {"dtype": "f4"}),
    ("sum", (2, 5), "f2", {"dtype": "f4", "keepdims": True}),
    ("prod", (2, 5), "i4", {"dtype": "i4"}),
    ("prod", (2, 5), "u1", {"dtype": "u4", "initial": 3}),
    ("max", (2, 5), "i4", {"dtype": "f8"}),
    ("mean", (2, 5), "i4", {"dtype": "f4"}),
    ("mean", (2, 5), "f4", {"dtype": "f8"}),
    ("l2", (2, 5), "i4", {"dtype": "f4"}),
    ("bitwise_xor", (2, 5), "i4", {"dtype": "i2"}),
    ("bitwise_and", (2, 5), "?", {"initial": True}),
    ("sum", (2, 3, 5), "f4", {"axis": (1, 2)}),
    ("all", (2, 3, 5), "i4", {"axis": (-1, 1), "keepdims": True}),
    ("count_nonzero", (2, 3, 5), "f4", {"axis": (1, 2)}),
    ("mean", (2, 3, 5), "f8", {"axis": (0, 1, 2)}),
    ("max", (2, 3, 5), "u1", {"axis": None}),
    ("sum", (2, 3, 1), "i1", {"axis": (1, 2)}),
    ("l1", (5, 1), "i1", {}),
    ("any", (5, 1), "f4", {"keepdims": True}),
]


def values(shape, dtype, seed=3):
    """Unsigned ones above the signed maximum, too."""
    low, high = {"u": (0, 255), "b": (0, 2)}.get(np.dtype(dtype).kind, (-4, 5))
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def answer(function, *arguments, **options):
    """The result, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*arguments, **options)), None
        except Exception as e:
            return None, e


def name(row):
    op, shape, dtype, options = row
    return f"{op}-{'x'.join(map(str, shape))}-{dtype}-" + ",".join(f"{key}={value}" for key, value in options.items())


def test_the_table_is_long_and_has_no_row_twice():
    assert len(TABLE) >= 150 and len(set(map(name, TABLE))) == len(TABLE) and {row[0] for row in TABLE} == set(OPS)


@pytest.mark.parametrize(("op", "shape", "dtype", "options"), TABLE, ids=map(name, TABLE))
def test_as_numpy(op, shape, dtype, options):
    x = values(shape, dtype)
    if op == "log_sum":
        x = np.abs(x)
    expected, refusal = answer(CALLS[op], x, **{"axis": -1, **options})
    found, error = answer(reduce, x, op=op, device="cpu", **options)
    if refusal is not None:
        known = (np.exceptions.AxisError, TypeError, ValueError)
        wanted = next(kind for kind in known if isinstance(refusal, kind))
        assert isinstance(error, wanted) and "\n" not in str(error), (error, refusal)
        return
    assert error is None, error
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    tolerance = 4 * np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0
    np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), rtol=tolerance)
