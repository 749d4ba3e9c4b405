"""Checks that schemas/foreign/trainer.json knows every training argument of the installed transformers,
and that the defaults in the table are those of transformers."""
import dataclasses
import json
import sys

from transformers import Seq2SeqTrainingArguments

def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        table = json.load(file)["keys"]
    fields = {field.name: field for field in dataclasses.fields(Seq2SeqTrainingArguments)}
    assert len(fields) > 80, len(fields)
    unknown = sorted(set(fields) - set(table))
    assert not unknown, f"the table does not know {unknown}"
    wrong = {
        key: (entry["default"], fields[key].default)
        for key, entry in table.items()
        if "default" in entry and entry["default"] != fields[key].default
    }
    assert not wrong, f"other defaults in transformers: {wrong}"
    print(f"{len(fields)} arguments, {sum('default' in entry for entry in table.values())} defaults")


main()
