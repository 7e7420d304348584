"""`python -m stickbreak`."""

from stickbreak.cli import main

if __name__ == "__main__":
    main()
