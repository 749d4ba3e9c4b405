"""A program of the HuggingFace Trainer as it runs on any cluster. It trains a small model from random weights.

Only one line is for a queue that may interrupt it: the Trainer continues from its newest checkpoint, if there is one.
"""
import argparse
import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument('--text', required=True)
parser.add_argument('--out', required=True)
parser.add_argument('--steps', type=int, default=60)
options = parser.parse_args()

with open(options.text, 'rb') as file:
    data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
rows = [{'input_ids': row, 'labels': row} for row in data.split(64) if len(row) == 64]
torch.manual_seed(1)
model = LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64))
trainer = Trainer(model=model, train_dataset=rows, args=TrainingArguments(
    output_dir=options.out, max_steps=options.steps, per_device_train_batch_size=8, learning_rate=3e-3,
    logging_steps=10, save_steps=20, seed=1, report_to='none', disable_tqdm=True,
    use_cpu=not torch.cuda.is_available()))
newest = get_last_checkpoint(options.out) if os.path.isdir(options.out) else None
if trainer.is_world_process_zero():
    print(f'starting from {newest or "random weights"} on {trainer.args.world_size} processes', flush=True)
trainer.train(resume_from_checkpoint=newest)
if trainer.is_world_process_zero():
    print(f'trained {trainer.state.global_step} steps', flush=True)
