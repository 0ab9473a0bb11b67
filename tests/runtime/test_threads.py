"""Threads of linear algebra: none inside, and as before outside."""

from threadpoolctl import threadpool_info, threadpool_limits

from sparse_langevin.runtime.threads import one_blas_thread


def counts():
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_one_thread_until_the_last_one_leaves():
    with threadpool_limits(3):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert counts() == {1}
        first.__exit__(None, None, None)  # as of two fits in threads the one that began first
        assert counts() == {1}
        second.__exit__(None, None, None)
        assert counts() == {3}
