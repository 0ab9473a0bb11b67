"""A small network, named to the commands as tests.surrogates.small:Small."""

import torch
from torch import nn


class Small(nn.Module):
    SPARSE = ("layers.1.weight", "layers.3.weight")

    def __init__(self, grid):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(grid.cells, 20), nn.Tanh(), nn.Linear(20, grid.edges))

    def forward(self, kappa):
        return self.layers(kappa)


class Reversed(nn.Module):
    """Its layers are not in the order of their names."""

    SPARSE = ("wide.weight", "again.weight")

    def __init__(self, grid):
        super().__init__()
        self.wide, self.again = nn.Linear(grid.cells, 20), nn.Linear(20, grid.edges)

    def forward(self, kappa):
        return self.again(self.wide(kappa.flatten(1)).tanh())


class Unnamed(Small):
    SPARSE = None


class Dropped(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.layers[2] = nn.Sequential(nn.Tanh(), nn.Dropout(0.2))


class Scalar(Small):
    def forward(self, kappa):
        return self.layers(kappa).mean(1, keepdim=True)


class FirstAlone(Small):
    def forward(self, kappa):
        return self.layers(kappa)[:1]


class Pair(Small):
    def forward(self, kappa):
        return self.layers(kappa), kappa


class Unbuilt(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.width = grid.sides


class Measured(Small):
    """Looks at a number when it is made, which torch's meta device has none of."""

    def __init__(self, grid):
        super().__init__(grid)
        self.scale = float(torch.ones(3).sum())


class Double(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.double()


class Doubled(Double):
    def forward(self, kappa):
        return self.layers(kappa.double())


class Unlayered(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.answer = nn.Parameter(torch.zeros(grid.edges))

    def forward(self, kappa):
        return self.answer.expand(len(kappa), -1)


class Tied(Small):
    SPARSE = None

    def __init__(self, grid):
        super().__init__(grid)
        self.layers[2] = nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20))
        self.layers[2][2].weight = self.layers[2][0].weight


class Lazy(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.layers[1] = nn.LazyLinear(20)


class Normed(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.layers[2] = nn.Sequential(nn.Tanh(), nn.BatchNorm1d(20, track_running_stats=False))


class BatchNormed(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.layers[2] = nn.Sequential(nn.Tanh(), nn.BatchNorm1d(20))


def not_a_network(grid):
    return grid


NETWORK = "tests.surrogates.small:Small"
