"""Fits a small network to a sine with PyTorch, on a GPU if there is one. Saves its state at the end
and on SIGUSR1, and starts from a saved state."""
import argparse
import os
import signal
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument('--threads', type=int, default=1)
parser.add_argument('--steps', type=int, default=300)
parser.add_argument('--state', default='train.pt')
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
device = 'cuda' if torch.cuda.is_available() else 'cpu'
model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
first = 0
if os.path.exists(arguments.state):
    saved = torch.load(arguments.state, weights_only=True)
    model.load_state_dict(saved['model'])
    optimizer.load_state_dict(saved['optimizer'])
    first = saved['step']

asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
inputs = torch.linspace(-3, 3, 256, device=device).unsqueeze(1)
loss = torch.tensor(0.0)
for step in range(first, arguments.steps):
    loss = torch.nn.functional.mse_loss(model(inputs), torch.sin(inputs))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if asked or step + 1 == arguments.steps:
        torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': step + 1},
                   arguments.state)
        print(f'step {step + 1}: loss {loss.item():.4f}, saved {arguments.state}', flush=True)
        sys.exit(0)
