"""Exact resize and normalisation of decoded frames."""
