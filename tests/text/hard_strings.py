"""The texts that an export compares tokenizers on, for the tests."""

from edgeformer.text.hard_strings import HARD_STRINGS, random_strings

__all__ = ["HARD_STRINGS", "random_strings"]
