"""What is committed as the page's program is what its sources make."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from airflow_provider import plugin
from airflow_provider.page import api

UI = Path(api.__file__).parent / "ui"
BUNDLE = (UI.parent / "bundle" / "page.js").read_text(encoding="utf-8")


def digest_of_sources() -> str:
    """As vite.config.ts computes it."""
    of_build = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]
    sources = [path.relative_to(UI).as_posix() for kind in ("ts", "tsx") for path in UI.glob(f"src/**/*.{kind}")]
    digest = hashlib.sha256()
    for name in sorted([*of_build, *sources]):
        digest.update(f"{name}\0".encode() + (UI / name).read_bytes() + b"\0")
    return digest.hexdigest()


def test_bundle_is_built_of_the_sources() -> None:
    assert BUNDLE.splitlines()[0] == f"// built of {digest_of_sources()}", "run 'make page'"


def test_each_entry_finds_its_component_and_this_version_of_the_bundle() -> None:
    entries = plugin.StatefulStreamsPlugin.react_apps

    assert [entry["destination"] for entry in entries] == ["nav", "dag"]
    assert {entry["bundle_url"] for entry in entries} == {f"stateful-streams/ui/page.js?v={digest_of_sources()[:16]}"}
    assert set(re.findall(r'Reflect\.set\(globalThis,"(\w+)"', BUNDLE)) == {entry["name"] for entry in entries}


def test_bundle_is_small_and_brings_no_react_of_its_own() -> None:
    assert len(BUNDLE.encode()) < 150_000
    assert "React" in BUNDLE.splitlines()[-1]
    assert "__SECRET_INTERNALS" not in BUNDLE
    assert "__CLIENT_INTERNALS" not in BUNDLE


def test_lock_pins_with_hashes_and_names_no_host() -> None:
    packages = json.loads((UI / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]
