"""`map=` and `finalize=`: the user's functions, in the reference and in kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from iree_reduce_plugin import InputError, compile, reduce, reference
from iree_reduce_plugin.compare import allowed_units, same_bits, units_apart
from iree_reduce_plugin.devices import list_devices
from iree_reduce_plugin.element_types import ElementType
from iree_reduce_plugin.expressions import exp, where
from iree_reduce_plugin.functions import Function
from iree_reduce_plugin.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from emulate import emulate, emulated_job, random_data
from test_emulated import emulated

FUNCTIONS = {
    "a product and a sum": ("sum", lambda x: x * x + 1, None),
    "a product that feeds the sum": ("sum", lambda x: x * 2.7, "negative"),
    "a difference of products": ("max", lambda x: x * x - x * 0.3, None),
    "a negative product": ("sum", lambda x: 1 - x * x * x, None),
    "another type": ("sum", lambda x: x > 0, None),
    "a choice": ("mean", lambda x: where(x > 0, x, 0), lambda r: r * 2 + 1),
    "a name": ("argmax", "abs", None),
    "after a variance": ("var", lambda x: x * 3, "sqrt"),
    "a truth at the end": ("max", None, lambda r: r > 1),
}
VULKAN = next((found.device for found in list_devices() if found.name == "vulkan"), None)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("axis", "dtype"), [(0, "f4"), (1, "f2"), (1, "f8")])
def test_the_reference_s_bits(name, axis, dtype):
    op, map_, finalize = FUNCTIONS[name]
    x = (np.random.default_rng(0).standard_normal((37, 101)) * 3).astype(dtype)
    plan = compile(x, op=op, axis=axis, map=map_, finalize=finalize, target="cpu")
    assert plan.report["exact"]
    assert same_bits(plan(x), reference(x, plan.tuning, op=op, axis=axis, map=map_, finalize=finalize))


@pytest.mark.skipif(VULKAN is None, reason="device vulkan is not here")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_near_enough_on_vulkan(name):
    op, map_, finalize = FUNCTIONS[name]
    x = np.random.default_rng(0).standard_normal((37, 101)).astype("f4")
    plan = compile(x, op=op, map=map_, finalize=finalize, target=VULKAN.target)
    expected = reference(x, plan.tuning, op=op, map=map_, finalize=finalize)
    assert units_apart(plan(x), expected) <= max(allowed_units(plan._job), 0 if plan.report["exact"] else 64)


@emulated
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_emulated_gfx942(name):
    op, map_, finalize = FUNCTIONS[name]
    problem = Problem.of((5, 301), "f32", op, map=map_, finalize=finalize)
    assert emulate(emulated_job(problem, None, "gfx942"), random_data(problem)).right


def test_as_numpy_does():
    x = np.float32([[1, -2, 3], [4, 5, -6]])
    assert reduce(x, map="square").tolist() == [14, 77]
    assert reduce(x, map=lambda x: x > 0).tolist() == [2, 2] and reduce(x, map=lambda x: x > 0).dtype == np.int64
    assert reduce(x.astype("f2"), map="abs").dtype == np.float16
    assert reduce(x, op="max", axis=0, map=lambda x: 0 - x, finalize=lambda r: r.cast("i32")).tolist() == [-1, 2, 6]
    assert np.allclose(reduce(x, map=exp, finalize="log"), np.log(np.exp(x).sum(axis=-1)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cube", "map 'cube' is not known: use one of abs,"),
        (7, "map 7: give a Python function"),
        (lambda x: 3, "map: the function gives a int, not a value"),
        (lambda x: x if x > 0 else 0, "a value is not true or false"),
        (lambda x: x.cast("f64") + x, "the operands are f32 and f64; cast one"),
        (lambda x: sum((x * i + 1 for i in range(200)), x), "above the 100 that fit"),
    ],
)
def test_what_is_refused(given, words, no_compiler):
    with pytest.raises(InputError, match=words) as refusal:
        reduce(np.ones(4, "f4"), map=given)
    assert "\n" not in str(refusal.value)


def test_a_function_is_data():
    """Two functions that do the same are the same problem, whoever wrote them."""
    first, second = (Problem.of((4,), map=function) for function in (lambda x: x * x + 1, lambda y: y * y + 1))
    assert first == second and repr(first) == repr(second) and first != Problem.of((4,), map=lambda x: x * x + 2)
    assert Function.of("map", "square", ElementType("i32")).gives == ElementType("i32")


PRODUCTS = {"a multiple": lambda x: x * 3.1, "a negative one": lambda x: -(x * x)}
FED = ("mean", "l1", "var", "ptp", ("sum", "max"), ("sum", "mean"))


@pytest.mark.parametrize("op", FED, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_products_are_fused_alike(op, name, masked):
    """Left alone, one device would round the product and the sum together, and another each."""
    if masked and ("max" in op or op == "ptp"):
        pytest.skip("it takes no mask")
    x = np.random.default_rng(0).standard_normal((5, 300)).astype("f4")
    mask = np.random.default_rng(1).random(x.shape) < 0.6 if masked else None
    plan = compile(x, op=op, map=PRODUCTS[name], masked=masked, target="cpu")
    found, expected = plan(x, mask), reference(x, plan.tuning, op=op, map=PRODUCTS[name], where=mask)
    pairs = zip(found, expected, strict=True) if isinstance(op, tuple) else [(found, expected)]
    assert all(units_apart(*map(np.asarray, pair)) <= allowed_units(plan._job) for pair in pairs)


@emulated
@pytest.mark.parametrize("op", FED, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_products_are_fused_alike_on_emulated_gfx942(op, masked):
    if masked and ("max" in op or op == "ptp"):
        pytest.skip("it takes no mask")
    problem = Problem.of((5, 301), "f32", op, map="square", masked=masked)
    mask = np.random.default_rng(1).random(problem.shape) < 0.6 if masked else None
    assert emulate(emulated_job(problem, None, "gfx942"), random_data(problem), mask).right


def test_constants_that_are_used_often_are_looked_at_once():
    """Or forty doublings would take as long as 2 to the 40 constants."""

    def doubled(x):
        constant = x.constant(1)
        for _ in range(40):
            constant = constant + constant
        return constant * x

    assert Function.of("map", doubled, ElementType("f64")).gives == ElementType("f64")


TRUTHS = np.array([[True, True], [True, False]])


@pytest.mark.parametrize("op", ["bitwise_and", "max", "all", "any"])
@pytest.mark.parametrize("finalize", ["invert", np.logical_not, lambda v: ~v], ids=["invert", "logical_not", "~"])
def test_truths_stay_truths(op, finalize):
    """They are no integers on the way, whose bits would all be turned."""
    expected = ~{"bitwise_and": np.all, "max": np.any, "all": np.all, "any": np.any}[op](TRUTHS, axis=1)
    assert same_bits(reduce(TRUTHS, op=op, finalize=finalize, device="cpu"), expected)
    assert reduce(TRUTHS, map="invert", device="cpu").tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2"])
@pytest.mark.parametrize("name", ["invert", "negative", "square", "abs", "sign"])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_short_integers_wrap_as_numpy_s(name, dtype, op):
    x = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 40), dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(getattr(np, name)(x), axis=1)
    assert same_bits(reduce(x, op=op, map=name, device="cpu"), expected)


@pytest.mark.parametrize(
    "name", ["floor", "ceil", "trunc", "rint", "sign", "exp", "expm1", "log1p", "log2", "sin", "cos", "tanh", "isfinite", "isinf"]
)
def test_by_name(name):
    x = np.float32([[-1.5, 0.5, 2.5, np.inf], [0.0, -0.0, 1.0, np.nan]])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
        found = reduce(x[..., None], map=name, op="max", device="cpu")
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    assert same_bits(reduce(x, map=getattr(np, name), op="max", device="cpu"), reduce(x, map=name, op="max", device="cpu"))


@pytest.mark.parametrize(
    ("x", "given", "words"),
    [
        (np.ones(4, "i4"), lambda v: v * 0.5, ["constant 0.5 beside integers of i32", "cast the value first"]),
        (np.ones(4, "i4"), lambda v: v < 2**40, ["outside i32", "cast the value first"]),
        (np.ones(4, "u4"), lambda v: v > -1, ["constant -1 is outside ui32"]),
        (np.ones(4, "i4"), lambda v: v + np.nan, ["constant nan beside integers"]),
        (np.ones(4, "f4"), lambda v: v + 10**400, ["too large for f32"]),
        (np.ones(4, "f4"), lambda v: v + "a", ["constant 'a' is not a number"]),
        (np.ones(4, "i4"), "isnan", ["the same for every i32 is not supported"]),
        (np.ones(4, "i4"), lambda v: v * 0, ["the same for every i32"]),
        (np.ones(4, "f4"), lambda v: v.constant(1), ["the same for every f32"]),
        (np.ones(4, "i4"), "reciprocal", ["reciprocal of i32", "cast the array"]),
        (np.ones(4, "f4"), np.round, ["map: it can't be used on values"]),
        (np.ones(4, "f4"), lambda v: np.sqrt(v), ["it can't be used on values", "iree_reduce_plugin.expressions"]),
        (np.ones(4, "f4"), lambda v: v**3, ["only the square is known"]),
        (np.ones(4, "?"), "sign", ["bools have none in NumPy", "cast the array"]),
    ],
)
def test_what_can_t_be_computed_is_refused(x, given, words, no_compiler):
    with pytest.raises(InputError) as refusal:
        reduce(x, map=given)
    assert "\n" not in str(refusal.value)
    for word in words:
        assert word in str(refusal.value)
