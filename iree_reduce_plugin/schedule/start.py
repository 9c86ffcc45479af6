"""`@start`: what the accumulators start from where that is -0.0, the true identity of a float sum.

MLIR's splitting of a reduction starts them from +0.0. The two differ in one case only: a sum of nothing but -0.0, joined by an
`initial` of -0.0. (A sum that +0.0 joins may start from it, see `Problem.start`.)
"""

from __future__ import annotations

import math

from iree.compiler import ir

from ..mlir import constant, element_type
from ..problem import Problem
from . import transform_ops as t
from .functions import function


def _is_minus_zero(problem: Problem) -> bool:
    return problem.accumulator.is_float and float(problem.start) == 0 and math.copysign(1.0, float(problem.start)) < 0


def write_start(module: ir.Module, problem: Problem) -> None:
    if _is_minus_zero(problem):
        with function(module, "start", [], element_type(problem.accumulator)) as body:
            body.give(constant(problem.start, problem.accumulator))


def inline_start(problem: Problem, fill: t.Handle, module: t.Handle) -> None:
    """Lets `fill` start the accumulators from -0.0; nothing to do for other starts."""
    if _is_minus_zero(problem):
        with t.foreach(t.producer(fill, 0)) as zero:
            t.inline("start", [], t.result(zero), zero, module)
