"""Problems that surrogates are trained on: each folder is one."""

from sparse_langevin.runtime.extras import expect_surrogates

expect_surrogates("sparse_langevin.problems")
