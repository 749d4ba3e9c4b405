"""Checks that schemas/foreign/trainer.json knows every training argument of the installed transformers and every key
of the configurations of the installed TRL, and that the defaults in the table are those of transformers."""
import ast
import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

from transformers import Seq2SeqTrainingArguments

# TRL's classes are read, because they cannot be imported without pyarrow.
OF_TRL = {'trainer/base_config.py': '_BaseConfig', 'trainer/sft_config.py': 'SFTConfig',
          'trainer/dpo_config.py': 'DPOConfig', 'trainer/kto_config.py': 'KTOConfig',
          'trainer/reward_config.py': 'RewardConfig', 'experimental/cpo/cpo_config.py': 'CPOConfig',
          'experimental/orpo/orpo_config.py': 'ORPOConfig', 'trainer/model_config.py': 'ModelConfig',
          'scripts/utils.py': 'ScriptArguments'}


def keys_of_trl():
    root = Path(importlib.util.find_spec('trl').origin).parent
    for path, name in OF_TRL.items():
        tree = ast.parse((root / path).read_text())
        body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
        fields = [line.target.id for line in body if isinstance(line, ast.AnnAssign)]
        assert fields, name
        yield from fields


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        table = json.load(file)["keys"]
    fields = {field.name: field for field in dataclasses.fields(Seq2SeqTrainingArguments)}
    assert len(fields) > 80, len(fields)
    unknown = sorted(set(fields) - set(table))
    assert not unknown, f"the table does not know {unknown}"
    unknown = sorted(set(keys_of_trl()) - set(table))
    assert not unknown, f"the table does not know {unknown} of TRL"
    wrong = {
        key: (entry["default"], fields[key].default)
        for key, entry in table.items()
        if "default" in entry and entry["default"] != fields[key].default
    }
    assert not wrong, f"other defaults in transformers: {wrong}"
    print(f"{len(fields)} arguments, {sum('default' in entry for entry in table.values())} defaults")


main()
