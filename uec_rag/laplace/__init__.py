"""Step 1: fit a Gaussian posterior over each encoder's last layer to text pairs.

`pairs` come in, `likelihood` is theirs, `posterior` comes out; `fit_posterior` is all of it.
"""
