"""Exports a small net that takes any batch from 1 to 64 as net.pt2."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3), nn.Softmax(-1)).eval()
batch = torch.export.Dim("batch", min=1, max=64)
torch.export.save(torch.export.export(net, (torch.randn(4, 8),), dynamic_shapes=({0: batch},)), "net.pt2")
