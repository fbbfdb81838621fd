"""`python -m verify` is the command `leanlloyd`."""

from verify.cli import main

if __name__ == "__main__":
    main()
