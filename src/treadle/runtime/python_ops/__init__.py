"""Where Python functions of graphs run: on the team's threads, or in worker processes."""
