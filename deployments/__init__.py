"""Scheduling core, simulator and runtime of the block-wise model server."""
