"""What the fixtures of this directory promise about any page."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import violations, watched

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A page</title></head>
<body><main><h1>A page</h1>{}</main></body></html>
"""
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=="


@pytest.fixture
def write(tmp_path):
    """Write a page with some content, under a name that needs quoting in an address."""

    def write(content):
        path = tmp_path / "a page (50%) ü #1.html"
        path.write_text(PAGE.format(content), encoding="utf-8")
        return path

    return write


def complaint_about(browser, path, until="true"):
    """Return why a page fails its test, once an expression is true on it."""
    with pytest.raises(pytest.fail.Exception) as failure, watched(browser) as open_page:
        open_page(path).wait_for_function(until)
    return str(failure.value)


def test_errors_are_caught(browser, write):
    script = """<script>
        console.error("written");
        console.assert(false, "asserted");
        Promise.reject(new Error("rejected"));
        setTimeout(() => { window.late = true; throw new Error("late") }, 30);
        throw new Error("thrown");
    </script>"""
    complaint = complaint_about(browser, write(script), until="window.late")
    for line in ("console error: written", "console assert: asserted"):
        assert line in complaint
    for error in ("rejected", "late", "thrown"):
        assert f"page error: {error}" in complaint
    assert "request: " not in complaint


@pytest.mark.parametrize(
    ("content", "complaint", "until"),
    [
        (
            '<img alt="" src="http://example.invalid/x.png">',
            r"request: http://example\.invalid/x\.png",
            "true",
        ),
        ('<img alt="" src="beside.png">', r"request: file:///.*/beside\.png", "true"),
        (
            '<script>new WebSocket("ws://example.invalid").onerror = () => { window.failed = true }</script>',
            "console error: WebSocket .*DISCONNECTED",
            "window.failed",
        ),
    ],
    ids=["elsewhere", "beside", "socket"],
)
def test_requests_are_caught(browser, write, content, complaint, until):
    assert re.search(f"(?m)^{complaint}", complaint_about(browser, write(content), until))


def test_what_a_page_holds_is_allowed(open_page, write):
    page = open_page(write(f'<img id="dot" alt="" src="{DOT}"><script>console.warn("harmless")</script>'))
    assert page.evaluate("document.getElementById('dot').naturalWidth") == 1
    assert page.evaluate("fetch(URL.createObjectURL(new Blob(['held']))).then(it => it.text())") == "held"
    page.goto(f"{page.url}#there")  # an anchor is no other file
    page.reload()
    assert page.title() == "A page"


def test_size_and_colour_scheme(open_page, write):
    path = write("")
    look = "[innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches]"
    assert open_page(path).evaluate(look) == [1280, 900, False]
    assert open_page(path, width=390, height=844, dark=True).evaluate(look) == [390, 844, True]


def test_axe_finds_what_is_inaccessible_and_nothing_else(open_page, write):
    bad = open_page(write(f'<img src="{DOT}"><p style="color: #bbb; background: #fff">Pale</p>'))
    assert {line.split()[0] for line in violations(bad)} == {"image-alt", "color-contrast"}
    good = open_page(write(f'<img alt="A dot" src="{DOT}"><p style="color: #444; background: #fff">Dark</p>'))
    assert violations(good) == []
