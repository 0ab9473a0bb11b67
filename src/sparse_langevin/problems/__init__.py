"""Problems that surrogates are trained on, one in each folder."""

from sparse_langevin.runtime.extras import expect_surrogates

expect_surrogates("sparse_langevin.problems")
