"""`python -m deploy`: what the script `databus` hands over to."""

import sys

from deploy.roles.role_command import parse_role_command, run_role


def main() -> None:
    """One role, or the whole command line."""
    command = parse_role_command(sys.argv[1:])
    if command is not None:
        sys.exit(run_role(command))
    from deploy.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
