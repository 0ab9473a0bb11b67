"""A report about predicted classes: scores, calibration, doubt and confusions, as one HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparse_langevin.posterior.classification import Scores, assess, auroc
from sparse_langevin.posterior.figures import doubt_figure, reliability_figure
from sparse_langevin.posterior.probabilities import Classification
from sparse_langevin.reports.page import Picture, Section, Table, number, png, render
from sparse_langevin.storage.files import write_atomically

MOST_CLASSES = 20  # of a table of confusions that can still be read
ANSWERED = (1.0, 0.95, 0.9, 0.8, 0.5)  # shares of examples that are answered, the least doubtful first


def classification_report(
    path: str | Path,
    made: Mapping[str, Classification] | Classification,
    labels: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    outside: Mapping[str, Classification] | None = None,
    title: str = "Classification",
) -> dict[str, Scores]:
    """Write a report about predictions whose labels are known, and return their scores.

    Parameters
    ----------
    path
        The HTML file. An existing one is replaced.
    made
        The predictions from `PosteriorBank.classify`, or several of them by name, for the same examples. The first one
        gets the detailed sections, the others stand beside it in the table of scores.
    labels
        Integers from 0, of shape (n, ...).
    classes
        Names of the classes; by default their numbers.
    outside
        Predictions of the first model at examples from elsewhere, by name, of which it should be less sure.
    title
        Heading of the page.
    """
    named = {"posterior average": made} if isinstance(made, Classification) else dict(made)
    if not named:
        raise ValueError("there is nothing to report: give at least one prediction")
    y = np.asarray(labels)
    scores = {name: assess(one.probabilities, y) for name, one in named.items()}
    (first, best), *_ = named.items()
    names = _class_names(classes, best.probabilities.shape[1])
    sections = [_scored(scores, y, len(names)), _doubt(best, y, outside or {}), _confusions(best, y, names)]
    lead = (
        f"{first}: {best.samples} posterior samples, {scores[first].count} examples of {len(names)} classes, accuracy "
        f"{scores[first].accuracy:.1%}, expected calibration error {scores[first].ece:.3f}"
    )
    write_atomically(Path(path), render(title, lead, sections).encode())
    return scores


def _class_names(classes: Sequence[str] | None, count: int) -> list[str]:
    names = [str(i) for i in range(count)] if classes is None else [str(name) for name in classes]
    if len(names) != count:
        raise ValueError(f"there are {count} classes in the probabilities, but {len(names)} names in classes")
    return names


def _scored(scores: Mapping[str, Scores], y: NDArray[Any], classes: int) -> Section:
    shares = np.bincount(y.reshape(-1), minlength=classes) / y.size
    naive = assess(np.tile(shares, (y.size, 1)), y.reshape(-1))
    shown = {**scores, "frequencies of the classes": naive}
    values = {
        name: [f"{s.accuracy:.2%}", *(number(v, 4) for v in (s.nll, s.brier, s.ece))] for name, s in shown.items()
    }
    table = Table(
        ("prediction", "accuracy", "NLL", "Brier", "ECE"),
        [(name, *cells) for name, cells in values.items()],
        "Lower is better but for the accuracy. The last line knows only how frequent each class is among these labels.",
    )
    words = [
        "NLL is the mean of minus the logarithm of the label's probability, in nats. The Brier score is the squared "
        "distance of the probabilities from the label, from 0 to 2. ECE is the mean distance between confidence and "
        "accuracy over 15 bins; chance makes it larger than zero if there are few examples."
    ]
    figure = reliability_figure({name: s.reliability for name, s in scores.items()})
    picture = Picture(png(figure), "Accuracy against confidence (left), and how many examples have it (right).")
    return Section("Scores and calibration", words, [table], [picture])


def _doubt(made: Classification, y: NDArray[Any], outside: Mapping[str, Classification]) -> Section:
    entropy, information = _flat(made.entropy), _flat(made.mutual_information)
    right = _flat(made.classes) == y.reshape(-1)
    order = np.argsort(entropy, kind="stable")
    rows = []
    for share in ANSWERED:
        kept = order[: max(1, round(share * len(order)))]
        rows.append((f"{share:.0%}", f"{right[kept].mean():.2%}", str(int((~right[kept]).sum()))))
    answered = Table(
        ("answered", "accuracy", "mistakes"), rows, "If the most doubtful examples, by entropy, are left to others."
    )
    tables = [answered]
    if outside:
        found = [
            (name, f"{auroc(entropy, _flat(o.entropy)):.1%}", f"{auroc(information, _flat(o.mutual_information)):.1%}")
            for name, o in outside.items()
        ]
        caption = "AUROC: how often an example from elsewhere is more doubtful than one from here. 50 % is chance."
        tables.append(Table(("examples", "by entropy", "by mutual information"), found, caption))
    groups = {"right": entropy[right], "wrong": entropy[~right]}
    groups |= {name: _flat(o.entropy) for name, o in outside.items()}
    words = [
        f"The mean entropy is {entropy.mean():.3f} nats, of which {information.mean():.3f} are due to the parameters "
        "(mutual information): that part would shrink with more data. The rest is noise in the labels."
    ]
    picture = Picture(png(doubt_figure(groups)), "Entropy of right and wrong answers, and of examples from elsewhere.")
    return Section("Doubt", words, tables, [picture])


def _confusions(made: Classification, y: NDArray[Any], names: Sequence[str]) -> Section:
    answers, truth = _flat(made.classes), y.reshape(-1)
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (truth, answers), 1)
    total, hits = counts.sum(1), counts.diagonal()
    if len(names) <= MOST_CLASSES:
        columns = ("class", *names, "accuracy")
        rows = [
            (names[i], *map(str, counts[i]), f"{hits[i] / total[i]:.1%}" if total[i] else "–")  # noqa: RUF001
            for i in range(len(names))
        ]
        return Section("Classes", (), [Table(columns, rows, "Rows are the labels, columns the predicted classes.")])
    wrong = counts - np.diag(hits)
    worst = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CLASSES]
    pairs = [np.unravel_index(place, wrong.shape) for place in worst if wrong.flat[place]]
    rows = [(names[i], names[j], str(wrong[i, j])) for i, j in pairs]
    return Section("Classes", (), [Table(("label", "predicted", "examples"), rows, "The most frequent confusions.")])


def _flat(values: Any) -> NDArray[Any]:
    return np.asarray(values).reshape(-1)
