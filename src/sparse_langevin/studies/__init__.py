"""The paper's experiments. Each study keeps records and makes tables, figures and judged claims from them."""

from sparse_langevin.runtime.extras import expect_surrogates

expect_surrogates("sparse_langevin.studies")
