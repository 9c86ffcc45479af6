"""What a refusal must be: one line, not too long, with the words that help."""

from __future__ import annotations


def check_one_line(message, words, most):
    assert "\n" not in message
    assert len(message) < most
    for word in words:
        assert word in message, message
