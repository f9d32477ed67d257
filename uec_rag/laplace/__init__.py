"""Step 1: from text pairs to a Gaussian posterior over each encoder's last layer."""
