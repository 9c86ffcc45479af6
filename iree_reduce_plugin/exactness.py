"""Which results have the reference's bits, and which only come near: what an op is made of, and how the target computes that."""

from __future__ import annotations

from .element_types import ElementType
from .expressions import LIBRARY, Value
from .expressions_trace import Trace
from .problem import Problem
from .targets import Target

# Functions of a mathematics library differ between targets. Vulkan asks less of a device than IEEE 754 does: 2.5 units in the last place
# of a division, a product and a sum of their own for `Fma`.
_LIBRARY = set(LIBRARY)
# What IREE does not lower, or its linker does not find.
_LACKING: dict[str, frozenset[tuple[str, str]]] = {
    "local": frozenset([("log10", "f32"), *((name, "f64") for name in ("log2", "log10", "sin", "cos", "tanh"))]),
    "vulkan": frozenset((name, "f64") for name in LIBRARY),
}
_LOOSE_ON_VULKAN = {"div", "sqrt", "fma"}


def is_exact(problem: Problem, target: Target) -> bool:
    """Whether the result is the reference's, bit for bit, on that target.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> [is_exact(Problem.of((4, 64), op=op), TARGETS["gfx942"]) for op in ("sum", "mean", "l2", "log_sum")]
    [True, True, True, False]
    >>> is_exact(Problem.of((4, 64), op="mean"), TARGETS["vulkan8"])
    False
    """
    loose = _LIBRARY | (_LOOSE_ON_VULKAN if target.backend == "vulkan" else set())
    return not loose & (_names(_step(problem)) | _names(_finish(problem)))


def fuses_products(problem: Problem) -> bool:
    """Whether a product of floats and a sum are one step of the loop, `fma`."""
    return "fma" in _names(_step(problem))


def lacking(problem: Problem, target: Target) -> tuple[str, str] | None:
    """A function that the problem takes and its type, where the target has none; None where it has all.

    >>> from iree_reduce_plugin.targets import TARGETS
    >>> lacking(Problem.of((4, 64), "f64", "log_sum"), TARGETS["vulkan8"]), lacking(Problem.of((4, 64), "f64", "log_sum"), TARGETS["cpu"])
    (('log', 'f64'), None)
    """
    none = _LACKING.get(target.backend, frozenset())
    taken = {step for value in (*_step(problem), *_finish(problem)) for step in value.raw.steps}
    return min(none & taken, default=None)


def _step(problem: Problem) -> tuple[Value, ...]:
    inputs = tuple(Trace.input(f"x {i}", element) for i, element in enumerate(problem.inputs))
    return problem.step(_held(problem), inputs, Trace.input("column", ElementType("i64")))


def _finish(problem: Problem) -> tuple[Value, ...]:
    return problem.finish(_held(problem))


def _held(problem: Problem) -> tuple[Value, ...]:
    return tuple(Trace.input(f"held {i}", element) for i, element in enumerate(problem.accumulators))


def _names(values: tuple[Value, ...]) -> set[str]:
    """Of the steps on floats."""
    return {name for value in values for name, element in value.raw.steps if ElementType(element).is_float}
