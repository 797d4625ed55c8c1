"""The root of the image, as `make image-root` left it, and how a container would run in it.

`container` starts commands there (hack/image/run-in), `elf` reads what its libraries need.
"""

import os
from pathlib import Path

import pytest

from tests.image.container import Image

WORK = "DWD_IMAGE"


@pytest.fixture(scope="session")
def work() -> Path:
    """Where `make image-root` has fetched and assembled."""
    found = Path(os.environ.get(WORK, ""))
    if WORK not in os.environ or not (found / "root" / "usr").is_dir():
        pytest.skip(f"there is no root of the image: make test-image makes one ({WORK} names it)")
    if os.geteuid() != 0:
        pytest.skip("only root can start what runs in another root")
    return found.resolve()


@pytest.fixture(scope="session")
def image(work: Path) -> Image:
    """The root, with what its container is started with."""
    return Image(work / "root")
