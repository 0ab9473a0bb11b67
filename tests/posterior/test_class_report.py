"""The report about predicted classes: its numbers, and what it refuses."""

import re

import numpy as np
import pytest
import torch

from sparse_langevin.posterior import classification
from sparse_langevin.posterior.class_report import classification_report
from sparse_langevin.posterior.probabilities import Classification


def made(logits: torch.Tensor, samples: int = 5) -> Classification:
    probabilities = logits.softmax(1)
    entropy = torch.as_tensor(classification.entropy(probabilities))
    return Classification(probabilities, probabilities * 0.1, probabilities.argmax(1), entropy, entropy / 3, samples)


def example(classes: int = 3, count: int = 200) -> tuple[Classification, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (count,), generator=generator)
    logits = torch.randn(count, classes, generator=generator) + 2.0 * torch.nn.functional.one_hot(labels, classes)
    return made(logits), labels


def cells(page: str, heading: str) -> list[str]:
    """The texts of the row that begins with a heading."""
    row = re.search(rf"<tr>\s*<th[^>]*>{re.escape(heading)}</th>(.*?)</tr>", page, re.S)
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row[1], re.S)]


def test_the_page_has_the_scores(tmp_path):
    prediction, labels = example()
    far = made(torch.zeros(50, 3) + 0.01 * torch.randn(50, 3))
    names = ["cat & dog", "mouse", "fish"]
    found = classification_report(
        tmp_path / "report.html",
        {"mine": prediction, "flat": made(torch.zeros(200, 3))},
        labels,
        classes=names,
        outside={"noise": far},
    )
    page = (tmp_path / "report.html").read_text()
    scores = classification.assess(prediction.probabilities, labels)
    assert found["mine"].nll == scores.nll
    assert cells(page, "mine") == [
        f"{scores.accuracy:.2%}",
        *(f"{v:.4f}" for v in (scores.nll, scores.brier, scores.ece)),
    ]
    assert cells(page, "flat")[1] == f"{np.log(3):.4f}"
    shares = np.bincount(labels) / 200
    assert cells(page, "frequencies of the classes")[1] == f"{-(shares * np.log(shares)).sum():.4f}"
    order = prediction.entropy.argsort()
    wrong = (prediction.classes != labels)[order[:100]]
    assert cells(page, "50%") == [f"{1 - wrong.float().mean():.2%}", str(int(wrong.sum()))]
    assert cells(page, "noise")[0] == f"{classification.auroc(prediction.entropy, far.entropy):.1%}"
    row = [int(n) for n in cells(page, "cat &amp; dog")[:3]]
    truth = labels == 0
    assert row == [int((prediction.classes[truth] == k).sum()) for k in range(3)]
    assert page.count("data:image/png") == 2
    assert "cat & dog<" not in page


def test_many_classes_list_their_confusions(tmp_path):
    prediction, labels = example(classes=40, count=400)
    classification_report(tmp_path / "report.html", prediction, labels)
    page = (tmp_path / "report.html").read_text()
    assert "The most frequent confusions." in page


def test_labels_of_images(tmp_path):
    prediction = made(torch.randn(4, 3, 5, 5))
    classification_report(tmp_path / "report.html", prediction, torch.randint(3, (4, 5, 5)))
    assert "100 examples of 3 classes" in (tmp_path / "report.html").read_text()


def test_what_is_refused(tmp_path):
    prediction, labels = example()
    with pytest.raises(ValueError, match="3 classes in the probabilities, but 2 names"):
        classification_report(tmp_path / "r.html", prediction, labels, classes=["a", "b"])
    with pytest.raises(ValueError, match="nothing to report"):
        classification_report(tmp_path / "r.html", {}, labels)
    with pytest.raises(ValueError, match="labels"):
        classification_report(tmp_path / "r.html", prediction, labels[:10])
    assert not (tmp_path / "r.html").exists()
