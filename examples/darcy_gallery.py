"""Pictures of random media and the flow through them: KLE fields with 32, 64 and 128 terms, and channels.

``python examples/darcy_gallery.py [--out docs/images] [--cells 50]`` draws one sample of each kind into the folder.
"""

import argparse
from pathlib import Path

import numpy as np

from sparse_langevin.problems import darcy


def media(cells: int) -> dict[str, darcy.KLE | darcy.Channels]:
    """Return the random media by name."""
    grid = darcy.Grid(cells, cells)
    fields: dict[str, darcy.KLE | darcy.Channels] = {
        f"kle{terms}": darcy.KLE(grid, terms=terms) for terms in (32, 64, 128)
    }
    fields["kle128-exponential"] = darcy.KLE(grid, terms=128, kernel="exponential")
    fields["kle32-lognormal"] = darcy.KLE(grid, terms=32, mode="lognormal", kappa_0=1.0)
    fields["channels"] = darcy.Channels(grid)
    return fields


def main(out: Path, cells: int) -> dict[str, float]:
    """Draw all random media; return the largest mass residual of each."""
    out.mkdir(parents=True, exist_ok=True)
    residuals = {}
    for name, fields in media(cells).items():
        kappa, _ = fields.sample(np.random.default_rng(3))
        solution = darcy.solve(kappa)
        darcy.sample_figure(kappa, solution).savefig(out / f"darcy-{name}.png", dpi=110)
        residuals[name] = solution.mass_residual
        print(f"{out / f'darcy-{name}.png'}: mass residual {solution.mass_residual:.1e}")
    return residuals


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--cells", type=int, default=50)
    main(**vars(parser.parse_args()))
