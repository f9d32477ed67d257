"""What UEC is compared with: weighting, merging, rank fusion, GroVE, deeper posteriors, theory."""
