"""The tunings of the two seed cases, as `test_data` has them."""

from __future__ import annotations

import json
from pathlib import Path

SEED_1, SEED_2 = (
    json.loads((Path(__file__).parents[1] / "test_data" / f"{name}.tuning.json").read_text()) for name in ("reduce_4096", "reduce_4x4096")
)
