"""The fixture `github`, for the sandbox's own tests."""

from tests.sandbox.fixtures import github

__all__ = ["github"]
