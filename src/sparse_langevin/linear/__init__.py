"""Linear models with variable selection: scikit-learn estimators, and the compiled chains beneath them."""
