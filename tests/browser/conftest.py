"""Pages in a real browser: Chromium, watched for errors and for requests beyond the page's own file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from partialfair.report.pages import audit_page, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from partialfair.metrics.report import FairnessReport

NAMES = ("chromium", "chromium-browser", "google-chrome")
GRACE = 100  # milliseconds in which a page may still complain before it is closed
PATIENCE = 300_000  # milliseconds after which a page that does not answer is broken, however busy the machine


@pytest.fixture(scope="package")  # not session: asyncio is out of order for all tests while Playwright runs
def browser() -> Iterator[Browser]:
    """Headless Chromium; skips where Playwright or Chromium is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no browser: Playwright is missing; pip install 'partialfair[dev]'"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no browser: Chromium is missing; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # Root cannot have the sandbox, and all pages are our own.
        chromium = driver.chromium.launch(executable_path=found, chromium_sandbox=False)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file: ``open_page(path, *, width=1280, height=900, dark=False, **options)`` gives its page.

    Each is in a context of its own, without network. The test fails at its end if a page wrote an error to
    the console, threw one, or asked for anything but its own file and ``data:`` and ``blob:`` addresses. The
    options are those of Playwright's ``Browser.new_context``, such as ``java_script_enabled=False``.
    """
    with watched(browser) as open_page:
        yield open_page


@pytest.fixture
def page_of(tmp_path: Path, open_page: Callable[..., Page]) -> Callable[..., Page]:
    """From a report, or several by name, to its opened page; ``audit`` holds options of `audit_page`."""

    def opened(
        report: FairnessReport | Mapping[str, FairnessReport],
        *,
        audit: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Page:
        file = tmp_path / "page.html"
        write_page(audit_page(report, **(audit or {})), file)
        return open_page(file, **options)

    return opened


@contextmanager
def watched(browser: Browser) -> Iterator[Callable[..., Page]]:
    """What the fixture ``open_page`` gives; leaving it fails for everything that pages did wrong."""
    contexts: list[BrowserContext] = []
    wrongs: list[str] = []

    def open_page(
        path: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False, **options: Any
    ) -> Page:
        file = Path(path).resolve()
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            offline=True,
            **options,
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        watch(context, file.as_uri(), wrongs)
        page = context.new_page()
        page.goto(file.as_uri())
        return page

    try:
        yield open_page
        still_open = [page for context in contexts for page in context.pages]
        if still_open:
            still_open[0].wait_for_timeout(GRACE)
    finally:
        for context in contexts:
            context.close()
    if wrongs:
        pytest.fail("\n".join(wrongs), pytrace=False)


def watch(context: BrowserContext, address: str, wrongs: list[str]) -> None:
    """Collect what pages of the context do wrong, where the page at the address is allowed."""

    def on_request(url: str) -> None:
        if url != address and not url.startswith(("data:", "blob:")):
            wrongs.append(f"request: {url}")

    def on_console(kind: str, text: str, url: str) -> None:
        if kind in ("error", "assert"):
            wrongs.append(f"console {kind}: {text} ({url})")

    def on_page(page: Page) -> None:  # a first page or a window that it opened
        page.on("pageerror", lambda error: wrongs.append(f"page error: {error}"))

    # A socket is no request to Playwright; without network it ends in an error on the console.
    context.on("request", lambda request: on_request(request.url))
    context.on("console", lambda line: on_console(line.type, line.text, line.location["url"]))
    context.on("page", on_page)


def violations(page: Page) -> list[str]:
    """What axe-core finds inaccessible on a page as it is now, one line for each rule and element."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="no axe-core: axe-playwright-python is missing; pip install 'partialfair[dev]'",
    )
    return [
        f"{rule['id']} ({rule['impact']}) at {node['target']}: {' '.join(node['failureSummary'].split())}"
        for rule in axe.Axe().run(page).response["violations"]
        for node in rule["nodes"]
    ]
