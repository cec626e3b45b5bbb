"""Lines over what was grown, or over time; and the figures beside them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import msgspec

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "plots"  # the same figures come to the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # words as words, not as outlines of their letters

from matplotlib import pyplot  # noqa: E402 - which has to know first that there is no screen

Row = tuple[str, Sequence[float], Mapping[str, Sequence[float]]]
"""What is grown, its values, and for each plot of it what was measured there."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Whether anything is drawn: see `write`."""
    parser.add_argument(
        "--write", type=Path, metavar="FILE.svg", help="draw the plots, and keep the figures beside them"
    )


def write(options: argparse.Namespace, found: object, rows: Sequence[Row], *, logarithmic: bool = True) -> None:
    """Draw rows, and keep the figures beside them, where that was asked for."""
    if options.write is not None:
        options.write.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(found)))
        draw(options.write, rows, logarithmic=logarithmic)


def draw(file: Path, rows: Sequence[Row], *, logarithmic: bool = True) -> None:
    """A grid of plots as SVG: from zero on, so that what is flat looks flat.

    Args:
        logarithmic: whether what is grown is multiplied from one point to the next.
    """
    columns = max(len(measured) for _, _, measured in rows)
    figure, grid = pyplot.subplots(len(rows), columns, figsize=(3.0 * columns, 2.2 * len(rows)), squeeze=False)
    for (name, values, measured), line in zip(rows, grid, strict=True):
        for (what, found), plot in zip(measured.items(), line, strict=False):
            plot.plot(values, found, marker="o", markersize=3)
            plot.set_ylim(0, 1.1 * max(*found, 0.001))
            plot.set_title(what, fontsize=9)
            plot.set_xlabel(name, fontsize=8)
            plot.tick_params(labelsize=7)
            if logarithmic:
                plot.set_xscale("log")
                plot.set_xticks(values, [f"{value:,.0f}" for value in values])
                plot.minorticks_off()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
