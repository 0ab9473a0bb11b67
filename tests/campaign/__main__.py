"""Run the campaign: ``make faults``, or ``python -m tests.campaign [PART ...] [--share 0.1] [--seed 7] [--again]``.

Each part is a module with

    PART              its title in the table
    trials(random)    the whole list of `Trial`, made with a random.Random
    attempt(ground, scratch, trial)    does one in an empty folder; returns what happened, in a word or two, which is
                      fine, or raises `Broken` with what is not

A trial is known by its name. Results are kept in ``results/faults/PART.jsonl`` as they come, so that a campaign that
was stopped goes on; what was broken is always tried again. The table goes into docs/reliability.md and a summary with
all that is broken into ``results/faults.json``, unless only a share was run. The exit code is 1 if anything is broken.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.campaign.ground import Ground
from tests.campaign.trials import Broken

ROOT = Path(__file__).parents[2]
PARTS = ("kills", "signals", "disks", "together", "damage", "hostile", "arguments", "memory")
RESULTS, PAGE = ROOT / "results" / "faults", ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- made by make faults -->\n", "<!-- end -->\n"


def main(words):
    """Attempt all trials that are not known to be fine; print and write what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description="Try to break the commands.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="try a random share of each part; nothing is written")
    parser.add_argument("--seed", type=int, default=0, help="of the trials and of the share")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="trials at a time")
    options = parser.parse_args(words)
    broken = 0
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        ground = Ground(Path(folder, "ground"))
        ground.make()
        for name in options.parts or PARTS:
            part = importlib.import_module(f"tests.campaign.{name}")
            whole = part.trials(random.Random(options.seed))
            chosen = whole
            if options.share < 1:
                chosen = random.Random(options.seed).sample(whole, max(1, round(options.share * len(whole))))
            known = {} if options.again or options.share < 1 else read(name)
            known = {t.name: known[t.name] for t in whole if known.get(t.name, {}).get("fine")}
            todo = [trial for trial in chosen if trial.name not in known]
            for trial, fine, words_ in attempts(part, ground, Path(folder, name), todo, options.workers):
                known[trial.name] = {"trial": trial.name, "group": trial.group, "fine": fine, "result": words_}
                if not fine:
                    print(f"BROKEN  {name}: {trial.name}: {words_}", flush=True)
                if options.share == 1:
                    append(name, known[trial.name])
            broken += sum(not record["fine"] for record in known.values())
            print(f"{name}: {len(known)} trials, {dict(Counter(r['result'] for r in known.values() if r['fine']))}")
    if options.share == 1:
        write_page()
    return 1 if broken else 0


def attempts(part, ground, folder, trials, workers):
    """Attempt trials side by side, each in a folder of its own; give each with its verdict as it is done."""

    def work(number, trial):
        scratch = folder / str(number)
        scratch.mkdir(parents=True)
        try:
            return True, part.attempt(ground, scratch, trial)
        except Broken as error:
            return False, str(error)
        except Exception:
            return False, f"the campaign itself failed: {traceback.format_exc()}"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    pool = ThreadPoolExecutor(workers)
    try:
        jobs = {pool.submit(work, number, trial): trial for number, trial in enumerate(trials)}
        for done in as_completed(jobs):
            yield jobs[done], *done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def read(name):
    """What is known of each trial of a part; a later line counts more than an earlier one."""
    path = RESULTS / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["trial"]: record for record in map(json.loads, lines)}


def append(name, record):
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name}.jsonl", "a") as file:
        file.write(json.dumps(record) + "\n")


def write_page():
    """Enter the table of all parts into the page, and a summary into the results."""
    rows, summary = ["| trials | what | number | what happened | broken |", "|---|---|---|---|---|"], {}
    for name in PARTS:
        groups: dict[str, list[dict]] = {}
        for record in read(name).values():
            groups.setdefault(record["group"], []).append(record)
        title = importlib.import_module(f"tests.campaign.{name}").PART if groups else ""
        for group, records in sorted(groups.items()):
            fine = Counter(record["result"] for record in records if record["fine"])
            broken = [record for record in records if not record["fine"]]
            words = ", ".join(f"{result} {count}" for result, count in fine.most_common())
            rows.append(f"| {title} | {group} | {len(records)} | {words} | {len(broken)} |")
            summary[f"{name}: {group}"] = {"trials": len(records), **fine, "broken": broken}
    (ROOT / "results" / "faults.json").write_text(json.dumps(summary, indent=1) + "\n")
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + "\n".join(rows) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
