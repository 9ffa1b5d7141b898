"""Generating for a GPU that this machine may not have: one concern per module."""
