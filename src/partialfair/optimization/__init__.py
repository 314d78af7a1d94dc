"""Models, losses and problems over blocks of rows, and their solvers; internal except where docs name it."""
