"""A policy learns to keep poles upright on carts; the carts are simulated.

`--variant sick` simulates on the host, cart by cart, and asks the device for the moves in every step.
`--variant fixed` simulates all carts on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import case_recording as recording
import torch
from torch import nn

CARTS, WIDTH = (4, 16) if recording.SMOKE else (2048, 512)
STEP_S, FORCE, CART_KG, POLE_KG, POLE_M, GRAVITY = 0.02, 10.0, 1.0, 0.1, 0.5, 9.81


def moved(cart: Sequence[Any], push: Any, cos: Any, sin: Any) -> tuple:
    """The state of a cart after a step, for numbers and for tensors."""
    position, speed, angle, turn = cart
    total = CART_KG + POLE_KG
    pushed = (push + POLE_KG * POLE_M * turn * turn * sin) / total
    turning = (GRAVITY * sin - cos * pushed) / (POLE_M * (4 / 3 - POLE_KG * cos * cos / total))
    going = pushed - POLE_KG * POLE_M * turning * cos / total
    return (
        position + STEP_S * speed,
        speed + STEP_S * going,
        angle + STEP_S * turn,
        turn + STEP_S * turning,
    )


class Playing(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(18)
        self.on_host = variant == "sick"
        with recording.DEVICE:
            self.policy = nn.Sequential(
                nn.Linear(4, WIDTH),
                nn.Tanh(),
                nn.Linear(WIDTH, WIDTH),
                nn.Tanh(),
                nn.Linear(WIDTH, 2),
            )
            self.state = torch.rand(CARTS, 4) * 0.1 - 0.05
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=1e-3, foreach=True)
        self.carts = [tuple(row) for row in self.state.tolist()]

    def simulate(self, moves: list[int]) -> torch.Tensor:
        carts = []
        for cart, move in zip(self.carts, moves, strict=True):
            after = moved(cart, FORCE if move else -FORCE, math.cos(cart[2]), math.sin(cart[2]))
            carts.append(after if abs(after[2]) < 0.3 and abs(after[0]) < 2.4 else (0.0,) * 4)
        self.carts = carts
        return torch.tensor(carts).to(recording.DEVICE)

    def simulate_all(self, moves: torch.Tensor) -> torch.Tensor:
        parts = self.state.unbind(1)
        after = moved(parts, moves * 2 * FORCE - FORCE, parts[2].cos(), parts[2].sin())
        state = torch.stack(after, 1)
        upright = (state[:, 2].abs() < 0.3) & (state[:, 0].abs() < 2.4)
        return state * upright[:, None]

    def step(self, number: int) -> None:
        odds = torch.log_softmax(self.policy(self.state), 1)
        moves = (odds[:, 1].exp() > torch.rand(CARTS, device=recording.DEVICE)).long()
        if self.on_host:
            state = self.simulate(moves.cpu().tolist())
        else:
            state = self.simulate_all(moves)
        reward = 1 - state[:, 2].abs() * 10
        loss = -(odds.gather(1, moves[:, None]).squeeze(1) * reward).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.state = state


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=15, timed_steps=20)
    recording.run(Playing, arguments.variant, plan)


if __name__ == "__main__":
    main()
