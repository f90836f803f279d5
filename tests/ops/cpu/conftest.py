"""What the tests of the compiled CPU scan share."""

from collections.abc import Iterator

import pytest

from ncp_control.ops.cpu import library


@pytest.fixture(params=library.LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every level that was built and that this machine can run."""
    monkeypatch.setenv(library.CHOICE, request.param)
    library.load.cache_clear()
    loaded, reason = library.load()
    if loaded is None:
        library.load.cache_clear()
        pytest.skip(reason)
    assert loaded.level == request.param
    yield request.param
    library.load.cache_clear()
