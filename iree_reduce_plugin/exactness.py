"""Which results have the reference's bits, and which only come near: what an op is made of, and how the target computes that."""

from __future__ import annotations

from .element_types import ElementType
from .expressions import Trace, Value
from .problem import Problem
from .targets import Target

# Functions of a mathematics library differ between targets. Vulkan asks less of a device than IEEE 754 does: 2.5 units in the last place
# of a division, a product and a sum of their own for `Fma`.
_LIBRARY = {"exp", "log"}
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


def takes_logarithms(problem: Problem, element: str) -> bool:
    """Whether the result is finished by a logarithm of that type."""
    return any(("log", element) in value.raw.steps for value in _finish(problem))


def _step(problem: Problem) -> tuple[Value, ...]:
    return problem.step(_held(problem), Trace.input("x", problem.input), Trace.input("column", ElementType("i64")))


def _finish(problem: Problem) -> tuple[Value, ...]:
    return problem.finish(_held(problem))


def _held(problem: Problem) -> tuple[Value, ...]:
    return tuple(Trace.input(f"held {i}", element) for i, element in enumerate(problem.accumulators))


def _names(values: tuple[Value, ...]) -> set[str]:
    """Of the steps on floats."""
    return {name for value in values for name, element in value.raw.steps if ElementType(element).is_float}
