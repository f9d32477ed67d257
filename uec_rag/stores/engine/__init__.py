"""The parts that all stores in vector databases share."""
