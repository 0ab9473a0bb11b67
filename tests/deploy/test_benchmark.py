"""The benchmark of deployment runs; the numbers mean nothing here."""

from benchmarks import deploy


def test_quick_run(tmp_path):
    rows = deploy.records(tmp_path, quick=True)
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    assert {name.split(": ")[1] for name in names} >= {deploy.DENSE, deploy.OURS, deploy.CSR, "ours, packed"}
    assert all(row["value"] > 0 and row["ratio"] > 0 and row["versus"] for row in rows)
