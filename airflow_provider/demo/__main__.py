"""Shows a failover on real parts: `run` runs the demo, `down` ends one that `--keep` left up."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from airflow_provider.demo.errors import DemoError, last_lines
from airflow_provider.demo.run import Demo, DemoSettings
from airflow_provider.demo.screen import Screen
from airflow_provider.demo.stage import DemoFolder, tear_down
from airflow_provider.errors import StatefulStreamsError


def main(arguments: list[str] | None = None) -> int:
    """Run one demo, or end one that was kept up.

    Returns:
        0 when all came out right; 1 when something differs or the demo could not be run; 130 when interrupted.
    """
    asked = _parser().parse_args(arguments)
    screen = Screen()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    try:
        if asked.command == "down":
            return _down(DemoFolder(asked.dir.absolute()), screen)
        return 0 if Demo(_settings(asked), screen).run() else 1
    except KeyboardInterrupt:
        screen.clear()
        screen.say("Interrupted; everything was stopped.")
        return 130
    except StatefulStreamsError as error:
        screen.clear()
        print(f"demo: {error}", file=sys.stderr)
        if isinstance(error, DemoError) and error.log_file is not None:
            print(f"Its log is {error.log_file}; the end of it:\n{last_lines(error.log_file)}", file=sys.stderr)
        return 1


def _down(folder: DemoFolder, screen: Screen) -> int:
    with folder.held():
        screen.say("Ended." if tear_down(folder) else f"No demo is up on {folder.root}.")
    return 0


def _settings(asked: argparse.Namespace) -> DemoSettings:
    kill_at, victim = (asked.kill_at, "i1") if asked.seed is None else DemoSettings.random_kill(asked.seed)
    return DemoSettings(
        folder=asked.dir,
        keep=asked.keep,
        kill_at=kill_at,
        victim=victim,
        publish_s=asked.seconds,
        limit_s=asked.limit,
        spark_master=asked.master,
        flights=asked.flights,
    )


def _interrupt(*_: object) -> None:
    # The first one interrupts; the clean-up that it begins is not to be interrupted by a second.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    defaults = DemoSettings()
    parser = argparse.ArgumentParser(prog="python -m airflow_provider.demo", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        choices=["run", "down"],
        default="run",
        help="run a demo, or end the one that --keep left up",
    )
    parser.add_argument("--dir", type=Path, default=defaults.folder, help="folder for the demo's data and logs")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end")
    parser.add_argument(
        "--kill-at",
        type=float,
        default=defaults.kill_at,
        help="begin the drill when this part of the flights is published, above 0 and below 1",
    )
    parser.add_argument("--seed", type=int, help="drill with a random instance at a random moment of 20 %% to 70 %%")
    parser.add_argument("--seconds", type=float, default=defaults.publish_s, help="how many seconds publishing takes")
    parser.add_argument("--limit", type=float, default=defaults.limit_s, help="give up after this many seconds")
    parser.add_argument("--flights", type=int, help="publish only this many of the flights")
    parser.add_argument("--master", default=defaults.spark_master, help="Spark master of both instances")
    return parser


if __name__ == "__main__":
    sys.exit(main())
