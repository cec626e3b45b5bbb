"""A real Chromium, told what to do by a process of Node that has playwright-core."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

UI: Final = Path(__file__).parents[2] / "airflow_provider" / "page" / "ui"
_PROGRAM: Final = Path(__file__).with_suffix(".mjs")


class BrowserError(Exception):
    """What it was told failed."""


class Browser:
    """One tab; `tell` has the methods of Playwright's ``page``, ``context`` and ``keyboard``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tell(self, on: str, do: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps({'on': on, 'do': do, 'with': arguments})}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BrowserError(f"The browser ended with status {self._process.wait(10)}: see the standard error.")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{do}{arguments}: {answer['error']}")
        return answer["value"]

    def log_in(self, address: str, token: str) -> None:
        """As Airflow's login page leaves it."""
        self.tell("context", "clearCookies")
        self.tell("context", "addCookies", [{"name": "_token", "value": token, "url": address, "sameSite": "Lax"}])

    def open(self, address: str) -> None:
        self.tell("page", "goto", address)

    def wait_for(self, selector: str, timeout_s: float = 60.0) -> None:
        """Until it is seen."""
        self.tell("page", "waitForSelector", selector, {"timeout": 1000 * timeout_s})

    def click(self, selector: str) -> None:
        self.tell("page", "click", selector)

    def text(self, selector: str) -> str:
        """Of the first one, as it is seen."""
        return str(self.tell("page", "innerText", selector))

    def count(self, selector: str) -> int:
        script = f"document.querySelectorAll({json.dumps(selector)}).length"
        return int(self.tell("page", "evaluate", script))

    def evaluate(self, script: str) -> Any:
        return self.tell("page", "evaluate", script)

    def press(self, key: str) -> None:
        self.tell("keyboard", "press", key)

    def look(self, *, width: int, dark: bool) -> None:
        """How wide the window is, and the colours of what is opened next; a page of Airflow has to be open."""
        self.tell("page", "setViewportSize", {"width": width, "height": 900})
        colours = "dark" if dark else "light"
        self.tell("page", "emulateMedia", {"colorScheme": colours})
        self.evaluate(f"localStorage.setItem('theme', '{colours}')")

    def picture(self, path: Path) -> None:
        self.tell("page", "screenshot", {"path": str(path), "animations": "disabled"})

    def axe(self, selector: str) -> list[str]:
        """What is not accessible below an element, a line each."""
        found: list[str] = self.tell("own", "axe", selector)
        return found

    def seen(self) -> dict[str, list[str]]:
        """``errors`` of programs, and ``hosts`` that were asked, since it was started."""
        found: dict[str, list[str]] = self.tell("own", "seen")
        return found


@contextmanager
def running_browser(folder: Path) -> Iterator[Browser]:
    """Start one with a profile of its own, and end it with the block."""
    node, chromium = shutil.which("node"), shutil.which("chromium") or shutil.which("google-chrome")
    if node is None or chromium is None or not (UI / "node_modules" / "playwright-core").is_dir():
        raise BrowserError("Node, Chromium and the packages of the page are needed: run 'make browser'.")
    process = subprocess.Popen(
        [node, str(_PROGRAM), str(folder), str(UI), chromium], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Browser(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
