"""Measurements. Law of this room: every figure stands beside references measured in the same run."""
