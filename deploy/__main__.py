"""`python -m deploy`: what the script `databus` hands over to."""

from deploy.cli import main

if __name__ == "__main__":
    main()
