"""What every room stands on: Gaussians, their similarity, checks, saved folders."""
