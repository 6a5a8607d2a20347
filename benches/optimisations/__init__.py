"""What each optimisation brings: models with it and without it, by turns."""
