"""A module that computes one product in a forked task while it computes another."""

import treadle.compat.torch as torch


class MyModule(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w_y = torch.nn.Parameter(torch.rand(size, size))
        self.w_z = torch.nn.Parameter(torch.rand(size, size))

    def compute_z(self, x):
        return torch.mm(x, self.w_z)

    def forward(self, x):
        fut = torch.jit._fork(self.compute_z, x)
        y = torch.mm(x, self.w_y)
        z = torch.jit._wait(fut)
        return y + z


torch.set_num_threads(2)
torch.set_num_interop_threads(2)
model = torch.jit.script(MyModule(256))
x = torch.rand(64, 256)
result = model(x)
print(result.sum())
