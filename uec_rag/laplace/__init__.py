"""Step 1: fit a Gaussian posterior over each encoder's last layer to text pairs."""
