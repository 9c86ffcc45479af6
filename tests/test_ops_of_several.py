"""Ops of several accumulators, in the reference: NumPy's results for any tuning; and refused by name where a kernel would be needed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from test_numpy_calls import last

from iree_reduce_plugin import compile, reference
from iree_reduce_plugin.compare import same_bits
from iree_reduce_plugin.ops import OPS

SEVERAL = ("argmax", "argmin", "argmax_last", "argmin_last", "ptp", "logsumexp", "var", "std")
CALLS = {
    "argmax": np.argmax,
    "argmin": np.argmin,
    "argmax_last": last(np.argmax),
    "argmin_last": last(np.argmin),
    "ptp": np.ptp,
    "logsumexp": lambda x, axis: np.logaddexp.reduce(x.astype("f8") if x.dtype.kind in "iub" else x, axis=axis),
    "var": np.var,
    "std": np.std,
}
TUNINGS = [
    {"thread": [1, 4], "lane_basis": [[1, 16], [0, 1]], "subgroup_basis": [[1, 3], [0, 1]]},
    {"thread": [1, 1], "lane_basis": [[1, 64], [0, 1]], "subgroup_basis": [[1, 1], [0, 1]]},
    {"thread": [1, 3], "lane_basis": [[1, 1], [0, 1]], "subgroup_basis": [[1, 5], [0, 1]]},
]


def data(kind, shape=(7, 333)):
    rng = np.random.default_rng(0)
    if kind in ("f4", "f8"):
        return rng.standard_normal(shape).astype(kind)
    if kind == "ties":
        return rng.integers(0, 3, shape).astype("f4")
    if kind == "nan":
        x = rng.standard_normal(shape).astype("f4")
        x[:, 100], x[:, 40], x[2] = np.nan, np.nan, np.nan
        return x
    if kind == "zeros":
        return np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype("f4")
    if kind == "infinities":
        x = rng.standard_normal(shape).astype("f4")
        x[0], x[1, 5], x[2, 7], x[3, 0] = -np.inf, np.inf, -np.inf, -np.inf
        return x
    if kind == "large":
        return (1e4 + rng.standard_normal(shape)).astype("f4")
    low, high = (0, 2) if kind == "?" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return rng.integers(low, high, shape, endpoint=kind != "?").astype(kind)


@pytest.mark.parametrize("tuning", TUNINGS, ids=range(len(TUNINGS)))
@pytest.mark.parametrize("kind", ["f4", "f8", "ties", "nan", "zeros", "infinities", "large", "i1", "u1", "i4"])
@pytest.mark.parametrize("op", SEVERAL)
def test_the_reference_is_numpy_s(op, kind, tuning):
    x = data(kind)
    with np.errstate(all="ignore"):
        expected = CALLS[op](x, axis=1)
    found = reference(x, tuning, op=op)
    assert found.dtype == expected.dtype
    if op.startswith("arg") or op == "ptp":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(
            found, expected, rtol=300 * np.finfo(found.dtype).eps * (100 if kind == "large" and op != "logsumexp" else 1)
        )


def test_a_variance_far_from_zero_keeps_its_digits():
    """The mean of the squares less the square of the mean would have none left."""
    x = (1e4 + np.random.default_rng(0).standard_normal((3, 4096))).astype("f4")
    exact = np.var(x.astype("f8"), axis=1)
    found = reference(x, TUNINGS[0], op="var")
    naive = np.mean(x * x, axis=1) - np.mean(x, axis=1) ** 2
    assert np.abs(found / exact - 1).max() < 1e-4 < np.abs(naive / exact - 1).max()


@pytest.mark.parametrize("ddof", [0, 1, 2, 400])
def test_ddof(ddof):
    x = data("f8")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.std(x, axis=1, ddof=ddof)
    np.testing.assert_allclose(reference(x, TUNINGS[0], op="std", ddof=ddof), expected, rtol=1e-13)


@pytest.mark.parametrize(("columns", "ddof"), [(2, 1), (4, 3)])
def test_a_variance_divided_by_one_compiles(columns, ddof):
    """IREE folds the division away, and crashed on the epilogue of which nothing was left."""
    x = np.random.default_rng(0).standard_normal((10, columns)).astype("f4")
    plan = compile(x, op="var", ddof=ddof, target="cpu")
    assert same_bits(plan(x), reference(x, plan.tuning, op="var", ddof=ddof))
    np.testing.assert_allclose(plan(x), np.var(x, axis=1, ddof=ddof), rtol=1e-5)


@pytest.mark.parametrize("op", SEVERAL)
def test_one_column_and_none(op):
    x = np.float32([[3], [-np.inf], [np.nan]])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(reference(x, {}, op=op), CALLS[op](x, axis=1))
    if OPS[op].empty == "error":
        with pytest.raises(ValueError, match="no identity"):
            reference(x[:, :0], {}, op=op)
    else:
        assert np.isnan(reference(x[:, :0], {}, op=op)).all() or op == "logsumexp"


def test_ddof_is_of_variances_only():
    with pytest.raises(TypeError, match=r"ddof 1: numpy\.sum has none"):
        reference(np.ones((3, 5)), {}, op="sum", ddof=1)
