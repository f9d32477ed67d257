"""The foundation of every room: Gaussians, their similarity, checks, saved folders."""
