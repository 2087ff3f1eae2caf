"""Evaluations that Optuna's TPE (PyPI `optuna`) needs on the recorded objectives of `benches/backends.rs --export FOLDER`.

usage: python benches/optuna_tpe.py FOLDER [SEEDS] [BUDGET]
Points that are not allowed are drawn again without counting, as the driver of the search does.
"""

import json
import pathlib
import statistics
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def evaluations(recorded, seed, budget):
    sizes, best, points = recorded["sizes"], recorded["best"], recorded["points"]
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=20, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    seen = set()
    for _ in range(20 * budget):
        trial = study.ask()
        point = 0
        for axis, size in enumerate(sizes):
            point = point * size + (trial.suggest_int(f"x{axis}", 0, size - 1) if size > 1 else 0)
        value = points[point]
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        seen.add(point)
        feasible = not isinstance(value, list)
        study.tell(trial, value if feasible else -value[0])
        if feasible and value >= best - 0.01 * abs(best):
            return len(seen)
        if len(seen) >= budget:
            break
    return float("inf")


folder = pathlib.Path(sys.argv[1])
seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
budget = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
for file in sorted(folder.glob("*.json")):
    recorded = json.loads(file.read_text())
    counts = sorted(evaluations(recorded, seed, budget) for seed in range(1, seeds + 1))
    quartile = lambda q: counts[(len(counts) - 1) * q // 4]
    print(file.stem, "optuna-tpe", statistics.median_low(counts), [quartile(1), quartile(3)], flush=True)
