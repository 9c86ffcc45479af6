"""One cache for the whole session, of all workers; and a way to prove that nothing was compiled."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")  # Mesa's cache ignores the vector width, which fixes the subgroup size

from iree_reduce_plugin import processes


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory):
    """The user's own cache and default device stay out of it."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IREE_REDUCE_CACHE_DIR", str(root / "cache"))
        patch.delenv("IREE_REDUCE_DEVICE", raising=False)
        yield


@pytest.fixture
def no_compiler(monkeypatch):
    """Asking for a compilation fails the test."""

    def take(self):
        pytest.fail("the compiler was asked")

    monkeypatch.setattr(processes.WorkerPool, "take", take)
