"""The command line of zipwire, as `python -m zipwire_tensors` and as the script `zipwire`."""

import sys


def main() -> int:
    from . import _native

    # Handlers of signals are those of the command.
    return _native.run_command([sys.executable, "-m", "zipwire_tensors"], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
