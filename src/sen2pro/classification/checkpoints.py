"""The state of a training run after each epoch: the best weights so far, and all it takes to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sen2pro.errors import Sen2ProError
from sen2pro.io import documents
from sen2pro.io.atomic import replacing
from sen2pro.io.bundle import ContentDigest, read_header

T = TypeVar("T")
_ABOUT = documents.record(
    {"epoch": documents.COUNT, "best_epoch": documents.COUNT, "best_loss": documents.ANY_NUMBER},
    {"digest": documents.TEXT},
)


class Checkpoint:
    """Keeps the best epoch in memory; if there is a folder, all goes into a file there, named by the fingerprint.

    The file stays until `delete` is called, which is when the classifier is saved: a kill in between loses nothing.
    """

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, folder: str | None, fingerprint: str
    ) -> None:
        self.network, self.optimizer = network, optimizer
        self.path = Path(folder) / f"sen2pro_finetuning_{fingerprint}.safetensors" if folder else None
        self.epoch, self.best_epoch, self.best_loss = 0, 0, float("inf")
        self._best: dict[str, Tensor] = {}

    def record(self, epoch: int, loss: float) -> None:
        """Note the loss after an epoch; the file is replaced at once, so that a kill leaves the old one or the new."""
        self.epoch = epoch
        if loss < self.best_loss:
            self.best_epoch, self.best_loss, self._best = epoch, loss, self._weights()
        if self.path is None:
            return
        tensors = {f"best.network.{name}": tensor for name, tensor in self._best.items()}
        tensors |= {f"now.network.{name}": tensor for name, tensor in self._weights().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{key}": tensor.detach().clone() for key, tensor in moments.items()}
        about = {"epoch": self.epoch, "best_epoch": self.best_epoch, "best_loss": self.best_loss}
        metadata = {"sen2pro": json.dumps({**about, "digest": _digest(tensors, about)})}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary:
            save_file(tensors, temporary, metadata=metadata)

    def restore_best(self) -> None:
        """Put the weights of the best epoch back."""
        self.network.load_state_dict(self._best)

    def resume(self) -> bool:
        """Go on from the file, if there is one; a file that does not belong to this network is refused."""
        if self.path is None or not self.path.is_file():
            return False
        try:
            header = read_header(self.path)
            about = documents.parse(header.metadata.get("sen2pro", ""), "its metadata")
            _ABOUT(about, "its metadata")
            wanted = {name: tuple(tensor.shape) for name, tensor in self.network.state_dict().items()}
            shapes = {name: shape for name, (_, shape) in header.arrays.items()}
            if _under("now.network.", shapes) != wanted or _under("best.network.", shapes) not in ({}, wanted):
                raise Sen2ProError("it does not hold the weights of this network")
            tensors = load_file(self.path)
            if any(not tensor.isfinite().all() for tensor in tensors.values()):
                raise Sen2ProError("it holds numbers that are not finite")
            if about.pop("digest", None) not in (None, _digest(tensors, about)):
                raise Sen2ProError("it was changed or damaged since it was written")
            self.epoch, self.best_epoch, self.best_loss = about["epoch"], about["best_epoch"], about["best_loss"]
            self._best = _under("best.network.", tensors)
            self.network.load_state_dict(_under("now.network.", tensors))
            moments: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _under("optimizer.", tensors).items():
                number, key = name.split(".")
                moments.setdefault(int(number), {})[key] = tensor
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        except (SafetensorError, Sen2ProError, KeyError, ValueError, RuntimeError) as error:
            raise Sen2ProError(f"{self.path} cannot be read ({error}); delete it to start anew") from None
        return True

    def delete(self) -> None:
        """Delete the file, and the folder if there is nothing else in it."""
        if self.path is None:
            return
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone().contiguous() for name, tensor in self.network.state_dict().items()}


def _digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    digest = ContentDigest()
    for name, tensor in tensors.items():
        digest.numbers(name, tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.value(**about, shapes={name: list(tensor.shape) for name, tensor in tensors.items()})


def _under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
