"""The command `transformer-playground`: start the app from wherever it is installed."""

import argparse
import sys
from pathlib import Path

from streamlit.web import cli

APP = Path(__file__).with_name("app.py")


def streamlit_arguments(arguments: list[str] | None = None) -> list[str]:
    """What `streamlit` is asked to do."""
    parser = argparse.ArgumentParser(prog="transformer-playground", description=__doc__)
    parser.add_argument(
        "--class",
        dest="for_class",
        action="store_true",
        help="open it to the room's network: everyone there who knows the address can use it",
    )
    parser.add_argument("--port", type=int, default=8501)
    chosen = parser.parse_args(arguments)
    address = "0.0.0.0" if chosen.for_class else "localhost"
    return ["run", str(APP), f"--server.address={address}", f"--server.port={chosen.port}"]


def main() -> None:
    sys.argv = ["streamlit", *streamlit_arguments()]
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
