"""Which engine runs, and that they agree."""

import logging
import multiprocessing
import sys

import pytest
import torch
from torch import nn

from sparse_langevin import GaussianLikelihood, SpikeSlab, psgld_sa
from sparse_langevin.runtime import threads
from sparse_langevin.sampling import kernels
from sparse_langevin.sampling.kernels import engines
from sparse_langevin.sampling.kernels.engines import Compiled, Native, Reference
from sparse_langevin.sampling.noise import CounterNoise, normals_at
from tests.sampling.kernels.test_native import SIZES, copy_state, distance, make_states, scalars, state_of

X = torch.randn(20, 300, generator=torch.Generator().manual_seed(0))


def make(engine="auto", width=200):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, width), nn.Tanh(), nn.Linear(width, 1))
    # A narrower spike is so stiff that a weight near zero makes much of a difference in rounding.
    prior = SpikeSlab.for_network(v0=0.1, v1=10.0)
    return psgld_sa(model, GaussianLikelihood(), num_data=20, step_size=1e-3, prior=prior, engine=engine)


def test_choice():
    vector = torch.zeros(3)
    assert isinstance(kernels.choose(vector), Native)
    assert isinstance(kernels.choose(vector, "reference"), Reference)
    assert isinstance(kernels.choose(vector, "compiled"), Compiled)
    with pytest.raises(ValueError, match="engine must be one of 'auto', 'native', 'reference', 'compiled', got 'fast'"):
        kernels.choose(vector, "fast")
    elsewhere = torch.zeros(3, device="meta")
    with pytest.raises(ValueError, match="this one is on meta"):
        kernels.choose(elsewhere, "native")


def test_accelerators_compile_if_they_can(monkeypatch, caplog):
    elsewhere = torch.zeros(3, device="meta")
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    engines._compiler_works.cache_clear()
    assert isinstance(kernels.choose(elsewhere), Compiled)

    def broken(function, **options):
        raise RuntimeError("no toolchain")

    monkeypatch.setattr(torch, "compile", broken)
    engines._compiler_works.cache_clear()
    engines._say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "sparse_langevin"):
        assert isinstance(kernels.choose(elsewhere), Reference)
    assert "torch.compile does not work for meta (no toolchain)" in caplog.text
    engines._compiler_works.cache_clear()


def test_without_numba_the_reference_runs_and_says_so_once(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sparse_langevin.sampling.kernels.native", None)
    monkeypatch.delattr(kernels, "native", raising=False)
    engines._say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "sparse_langevin"):
        samplers = [make(), make()]
    assert all(isinstance(sampler._engine, Reference) for sampler in samplers)
    assert [record.message for record in caplog.records if "numba cannot be imported" in record.message] == [
        caplog.records[0].message
    ]
    with pytest.raises(ImportError, match="pip install numba"):
        make("native")


def test_samplers_of_both_engines_stay_together():
    one, other = make("native"), make("reference")
    for _ in range(25):
        a, b = one.step(X, X[:, :1]), other.step(X, X[:, :1])
    assert a.sigma == pytest.approx(b.sigma, rel=1e-5)
    assert a.drift_norm == pytest.approx(b.drift_norm, rel=1e-4)
    assert a.noise_norm == pytest.approx(b.noise_norm, rel=1e-5)
    torch.testing.assert_close(one.flat.vector, other.flat.vector, rtol=1e-4, atol=1e-5)


def test_engine_is_no_setting_of_a_run():
    assert make("native").settings() == make("reference").settings()


def test_native_keeps_no_noise_and_sixteen_bytes_a_weight():
    sampler = make("native")
    for _ in range(3):
        sampler.step(X, X[:, :1])
    assert sampler._noise._out.numel() == 0 and "_counters" not in vars(sampler._noise)
    held = [sampler.flat.grad, sampler.vectors["v"], sampler.vectors["rho"], sampler.vectors["s"]]
    assert sum(t.numel() * t.element_size() for t in held) <= 16 * sampler.flat.size


def test_noise_element_by_element():
    for dtype in (torch.float32, torch.float64):
        noise = CounterNoise(4, 1001, dtype=dtype)
        for k in (1, 2**31 + 3):
            seen = normals_at(noise.words(k), torch.tensor(7), 901, dtype)
            assert torch.equal(seen, noise.normal(k)[7:908])


@pytest.mark.filterwarnings("ignore")  # torch warns of itself while it compiles
def test_compiled_equals_eager():
    """One compilation per kind of block, none for new values of the scalars."""
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2))
    except Exception as error:
        pytest.skip(f"torch.compile does not work here: {error}")
    options = {"metric": True, "latent": True, "masked": False, "gamma": False, "momentum": True}
    ours, theirs = (make_states(torch.float32, **options)[2:3] for _ in range(2))
    noise = CounterNoise(5, sum(SIZES))
    engine = Compiled()
    for k in (1, 2, 3):
        step = scalars(k, 1e-3 / k, 1.0 + 1 / k, 0.3 / k, 0.9, 1.0, 0.5 / k)
        ours[0].numbers = theirs[0].numbers = tuple(ours[0].prior.numbers(0.8 + 0.1 / k, {"delta": 0.5 / k}))
        copy_state(theirs, ours)
        with torch.compiler.set_stance("default" if k == 1 else "fail_on_recompile"):
            seen = engine.step(ours, step, noise, k)
        wanted = Reference().step(theirs, step, noise, k)
        assert seen[0] == pytest.approx(wanted[0], rel=4e-6)
        mine = state_of(ours[0])
        for name, reference in state_of(theirs[0]).items():
            assert distance(mine[name], reference) < 1e-6, name


def test_threads_carry_out_every_task_and_pass_errors_on():
    from collections import deque

    done = []
    threads.run(deque([lambda i=i: done.append(i) for i in range(100)]), 3)
    assert sorted(done) == list(range(100))

    def fail():
        raise KeyError("task")

    with pytest.raises(KeyError):
        threads.run(deque([fail, fail, fail]), 3)


def sample(queue=None):
    """Take steps on two threads of a pool."""
    torch.get_num_threads = lambda: 2
    sampler = make("native", width=600)
    for _ in range(2):
        info = sampler.step(X, X[:, :1])
    if queue is not None:
        queue.put(info.noise_norm)
    return info.noise_norm


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork(monkeypatch):
    """A child of a process that has used its threads makes its own."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    expected = sample()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=sample, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(timeout=60)
    assert child.exitcode == 0


def test_unwritable_cache(tmp_path):
    """Without a folder for compiled code everything still works."""
    from sparse_langevin.runtime import jit

    namespace = {}
    exec(compile("def double(x):\n    return 2 * x\n", "<nowhere>", "exec"), namespace)  # no file: nowhere to cache
    assert jit.compiled(namespace["double"])(2) == 4
