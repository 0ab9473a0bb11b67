"""A small network, named to the commands as tests.surrogates.small:Small."""

from torch import nn


class Small(nn.Module):
    SPARSE = ("layers.1.weight", "layers.3.weight")

    def __init__(self, grid):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(grid.cells, 20), nn.Tanh(), nn.Linear(20, grid.edges))

    def forward(self, kappa):
        return self.layers(kappa)


class Unnamed(Small):
    SPARSE = None


class Dropped(Small):
    def __init__(self, grid):
        super().__init__(grid)
        self.layers[2] = nn.Sequential(nn.Tanh(), nn.Dropout(0.2))


class Scalar(Small):
    def forward(self, kappa):
        return self.layers(kappa).mean(1, keepdim=True)


def not_a_network(grid):
    return grid


NETWORK = "tests.surrogates.small:Small"
