"""Fashion-MNIST: sparse and dense posteriors of a CNN beside their rivals, at equal CPU time."""
