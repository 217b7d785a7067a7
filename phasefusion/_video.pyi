"""Exact frames of a video file."""
