"""Random arrays to try a reduction on."""

from __future__ import annotations

from typing import Any

import numpy as np

from .problem import Problem

Array = np.ndarray[Any, np.dtype[Any]]


def random_array(problem: Problem, seed: int) -> Array:
    """Values near those a user has: normally distributed floats, integers within 100 of 0; near 1 for products, positive for logarithms."""
    random = np.random.default_rng(seed)
    element, op = problem.input, problem.op.name
    if element.is_bool:
        return random.random(problem.shape) < 0.5
    if not element.is_float:
        low, high = (-1, 2) if op == "prod" else (-100, 101)
        return random.integers(0 if element.is_unsigned or op == "log_sum" else low, high, problem.shape).astype(element.numpy)
    values = random.standard_normal(problem.shape, np.float32)
    chosen = 1 + values / 64 if op == "prod" else np.abs(values) if op == "log_sum" else values
    return np.asarray(chosen.astype(element.numpy))
