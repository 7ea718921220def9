"""Tests of the sandbox itself: by PyGithub, plain requests and real git, against GitHub's description."""
