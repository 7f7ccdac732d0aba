"""``python -m servsim``: the ``servsim`` program of this interpreter."""

from servsim.start import main

main()
