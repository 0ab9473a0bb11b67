"""Linear models: chains over coefficients in compiled loops, the path beneath the scikit-learn estimators."""
