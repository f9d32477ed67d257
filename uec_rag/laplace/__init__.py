"""Step 1: fit a Gaussian posterior over each encoder's last layer to text pairs.

`pairs` come in, `likelihood` and `curvature` are theirs, `posterior` comes out; `fit` is all of it.
"""
