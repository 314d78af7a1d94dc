"""Models, losses and problems over blocks of rows, and the solvers of them."""
