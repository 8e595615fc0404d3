"""Make the pictures of the page in docs/images: `python tests/page_pictures.py`, each tab in four forms."""

from __future__ import annotations

import tempfile
from io import BytesIO
from itertools import product
from pathlib import Path

from page_browser import DESKTOP, ON_PHONE, TABS, answered, chromium, visit
from PIL import Image
from server_process import running

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZES = {"desktop": {"viewport": DESKTOP}, "phone": {**ON_PHONE, "device_scale_factor": 2}}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), "--page") as server, chromium() as browser:
        for tab, size, scheme in product(TABS, SIZES, ("light", "dark")):
            with visit(browser, server, tab, color_scheme=scheme, **SIZES[size]) as page:
                answered(page, tab)
                page.wait_for_timeout(500)  # the words of a sentence come after its score
                picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            path = FOLDER / f"page-{tab.lower()}-{size}-{scheme}.png"
            picture.quantize(256, kmeans=4, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
