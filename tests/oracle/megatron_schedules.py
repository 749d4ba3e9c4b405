"""megatron_schedules.py OUT: learning rates and weight decays as megatron-core computes them.

Writes OUT/cases.json: [{options by our names, "lr": [...], "weight_decay": [...]}], element n for the update that
follows n others. Megatron's file is run as it lies in the wheel; only its logging helper is left out.
"""
import importlib.util
import itertools
import json
import sys
import types
from pathlib import Path

STEPS, LR = 24, 1e-3


def megatrons_scheduler():
    core = Path(importlib.util.find_spec("megatron.core").origin).parent
    utils = types.ModuleType("megatron.core.utils")
    utils.log_single_rank = lambda *_: None
    sys.modules |= {"megatron.core": types.ModuleType("megatron.core"), "megatron.core.utils": utils}
    spec = importlib.util.spec_from_file_location("scheduler", core / "optimizer_param_scheduler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OptimizerParamScheduler


def run(scheduler_class, case):
    group = {}
    optimizer = types.SimpleNamespace(param_groups=[group])
    scheduler = scheduler_class(
        optimizer, init_lr=case["init_lr"], max_lr=LR, min_lr=case["min_lr"], lr_warmup_steps=case["warmup_steps"],
        lr_decay_steps=case["decay_steps"] or STEPS, start_wd=case["weight_decay"], end_wd=case["weight_decay_end"],
        lr_decay_style={"wsd": "WSD"}.get(case["schedule"], case["schedule"]), wd_incr_steps=STEPS,
        wd_incr_style=case["weight_decay_schedule"], wsd_decay_steps=case["wsd_decay_steps"],
        lr_wsd_decay_style=case["wsd_decay"])
    case |= {"lr": [], "weight_decays": []}
    for _ in range(STEPS + 6):
        case["lr"].append(group["lr"])
        case["weight_decays"].append(group["weight_decay"])
        scheduler.step(1)
    return case


def cases():
    falls = [(name, "linear", 0) for name in ("constant", "linear", "cosine", "inverse-square-root")]
    styles = ("linear", "cosine", "exponential", "minus_sqrt")
    falls += [("wsd", style, length) for style in styles for length in (1, 7)]
    decays = [("constant", 0.1, 0.1), ("linear", 0.0, 0.1), ("cosine", 0.01, 0.3)]
    for (name, style, length), init, low, warmup, horizon, (way, begin, end) in itertools.product(
            falls, (0.0, 2e-4), (0.0, 1e-4), (0, 1, 5), (0, 17, 40), decays):
        yield {"steps": STEPS, "schedule": name, "wsd_decay": style, "wsd_decay_steps": length, "init_lr": init,
               "lr_max": LR, "min_lr": low, "warmup_steps": warmup, "decay_steps": horizon,
               "weight_decay_schedule": way, "weight_decay": begin, "weight_decay_end": end}


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    scheduler = megatrons_scheduler()
    (out / "cases.json").write_text(json.dumps([run(scheduler, case) for case in cases()]))


main()
