"""What the tests of audits share."""

import pytest


@pytest.fixture
def claims_file(tmp_path):
    """Write a claims file and return its path."""

    def write(text, name="claims.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
