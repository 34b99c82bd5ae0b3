"""Our hot paths beside the rivals', in one run. Only ratios count: machines are noisy."""
