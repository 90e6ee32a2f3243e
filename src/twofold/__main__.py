"""`python -m twofold` is the command `twofold`."""

from twofold.cli import main

main()
