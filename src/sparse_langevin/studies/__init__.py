"""The paper's experiments, one study at a time: records in, tables, figures and claims out."""

from sparse_langevin.runtime.extras import expect_surrogates

expect_surrogates("sparse_langevin.studies")
