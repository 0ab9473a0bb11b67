import pytest

from tests.processes import fork_quickly


@pytest.fixture(scope="module")
def forked():
    """The library's processes begin in milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        fork_quickly(patch)
        yield
