"""Evaluations that Optuna's TPE (PyPI `optuna`) needs on the objectives of `cargo bench --bench backends`.

usage: python benches/optuna_tpe.py FOLDER [SEEDS] [BUDGET]             the recorded objectives of `--export FOLDER`
       python benches/optuna_tpe.py --live BINARY BEST [SEEDS] [BUDGET] the bench's binary, asked one point at a time

The limits are told as constraints. Points that are not allowed are told as pruned and not counted, as the driver of the
search does.
"""

import json
import pathlib
import statistics
import subprocess
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Recorded:
    def __init__(self, file):
        recorded = json.loads(file.read_text())
        self.sizes, self.ordered, self.best = recorded["sizes"], recorded["ordered"], recorded["best"]
        self.points = recorded["points"]

    def look(self, coordinates):
        point = 0
        for size, at in zip(self.sizes, coordinates):
            point = point * size + at
        return self.points[point]


class Live:
    def __init__(self, binary, best):
        self.process = subprocess.Popen([binary, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = json.loads(self.process.stdout.readline())
        self.sizes, self.ordered, self.best = told["sizes"], told["ordered"], best

    def look(self, coordinates):
        self.process.stdin.write(" ".join(map(str, coordinates)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def evaluations(objective, seed, budget):
    """Different allowed points until within one per cent of the best."""
    sampler = optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=20, multivariate=True, constraints_func=lambda trial: [trial.user_attrs["excess"]]
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    seen = set()
    for _ in range(20 * budget):
        trial = study.ask()
        coordinates = []
        for axis, (size, ordered) in enumerate(zip(objective.sizes, objective.ordered)):
            name = f"x{axis}"
            if size == 1:
                coordinates.append(0)
            elif ordered:
                coordinates.append(trial.suggest_int(name, 0, size - 1))
            else:
                coordinates.append(trial.suggest_categorical(name, list(range(size))))
        told = objective.look(coordinates)
        if told is None:
            trial.set_user_attr("excess", 1e6)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        score, excess = told
        trial.set_user_attr("excess", excess)
        study.tell(trial, score)
        seen.add(tuple(coordinates))
        if excess <= 0 and score >= objective.best - 0.01 * abs(objective.best):
            return len(seen)
        if len(seen) >= budget:
            break
    return float("inf")


def report(name, objective, seeds, budget):
    counts = sorted(evaluations(objective, seed, budget) for seed in range(1, seeds + 1))
    quartile = lambda q: counts[(len(counts) - 1) * q // 4]
    reached = sum(count < float("inf") for count in counts)
    print(
        f"{name} optuna-tpe: {statistics.median_low(counts)} [{quartile(1)}, {quartile(3)}],",
        f"{reached} of {seeds} within {budget}",
        flush=True,
    )


words = sys.argv[1:]
live = words[0] == "--live"
rest = words[3:] if live else words[1:]
seeds, budget = (int(rest[0]) if rest else 20), (int(rest[1]) if len(rest) > 1 else 1000)
if live:
    report("disagg", Live(words[1], float(words[2])), seeds, budget)
else:
    for file in sorted(pathlib.Path(words[0]).glob("*.json")):
        report(file.stem, Recorded(file), seeds, budget)
