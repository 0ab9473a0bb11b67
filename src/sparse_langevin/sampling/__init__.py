"""Any PyTorch module in, a Markov chain over its weights out."""
