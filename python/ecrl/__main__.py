"""The `ecrl` command: `ecrl train hopper`, or `python -m ecrl train hopper`."""

import os
import signal
import sys

from ecrl import _mujoco  # noqa: F401
from ecrl import _ecrl


def main() -> None:
    """Runs the command with the arguments of this process."""
    # The command listens to Ctrl-C by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("ECRL_COMMAND", "ecrl")
    sys.exit(_ecrl.command(["ecrl", *sys.argv[1:]], [sys.executable, "-m", "ecrl"]))


if __name__ == "__main__":
    main()
