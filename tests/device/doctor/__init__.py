"""Tests of `edgeformer doctor`."""
