"""The state of a training run after each epoch: what is best so far, and what it takes to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sen2pro.errors import Sen2ProError
from sen2pro.files import documents
from sen2pro.files.atomic import replacing
from sen2pro.files.digests import ContentDigest
from sen2pro.files.tensors import read_header

_ABOUT = documents.record(
    {"epoch": documents.COUNT, "best_epoch": documents.COUNT, "best_loss": documents.ANY_NUMBER},
    {"digest": documents.TEXT},
)


class Checkpoint:
    """Keeps the best epoch in memory and, where a folder is named, everything on disk.

    The file stays until `delete` is called, which is when the classifier is saved: a kill in between loses nothing.

    Parameters
    ----------
    modules, optimizer
        What is trained, by name, and by what.
    folder
        Where the file is, or None for none.
    fingerprint
        Names the run, and its file.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        optimizer: torch.optim.Optimizer,
        folder: str | None,
        fingerprint: str,
    ) -> None:
        self.modules, self.optimizer = modules, optimizer
        self.path = Path(folder) / f"sen2pro_finetuning_{fingerprint}.safetensors" if folder else None
        self.epoch, self.best_epoch, self.best_loss = 0, 0, float("inf")
        self._best: dict[str, Tensor] = {}

    def record(self, epoch: int, loss: float) -> None:
        """Note the loss after an epoch; the file is replaced at once, so that a kill leaves the old one or the new."""
        self.epoch = epoch
        if loss < self.best_loss:
            self.best_epoch, self.best_loss, self._best = epoch, loss, self._weights()
        if self.path is not None:
            self._write(self.path)

    def restore_best(self) -> None:
        """Put the weights of the best epoch back."""
        self._put(self._best)

    def resume(self) -> bool:
        """Go on from the file, if there is one; a file that does not belong to this network is refused."""
        from safetensors import SafetensorError, safe_open

        if self.path is None or not self.path.is_file():
            return False
        try:
            about = documents.parse(read_header(self.path).metadata.get("sen2pro", ""), "its metadata")
            _ABOUT(about, "its metadata")
            self._check_shapes()
            with safe_open(self.path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
            if any(not tensor.isfinite().all() for tensor in tensors.values()):
                raise Sen2ProError("it holds numbers that are not finite")
            if about.pop("digest", None) not in (None, _digest(tensors, about)):
                raise Sen2ProError("it was changed or damaged since it was written")
            self.epoch, self.best_epoch, self.best_loss = about["epoch"], about["best_epoch"], about["best_loss"]
            self._best = _under("best.", tensors)
            self._put(_under("now.", tensors))
            self._put_optimizer(_under("optimizer.", tensors))
        except (SafetensorError, Sen2ProError, KeyError, ValueError, RuntimeError) as error:
            raise Sen2ProError(f"{self.path} cannot be read ({error}); delete it to start anew") from None
        return True

    def _check_shapes(self) -> None:
        """Refuse a file whose header names other weights than those of this network, before they are read."""
        assert self.path is not None
        found = {name: tensor.shape for name, tensor in read_header(self.path).tensors.items()}
        wanted = {name: tuple(tensor.shape) for name, tensor in self._weights().items()}
        for prefix in ("now.", "best."):
            kept = {name.removeprefix(prefix): shape for name, shape in found.items() if name.startswith(prefix)}
            if kept != wanted and (kept or prefix == "now."):
                raise Sen2ProError("it does not hold the weights of this network")

    def delete(self) -> None:
        """Delete the file, and the folder if there is nothing else in it."""
        if self.path is None:
            return
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _weights(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": tensor.detach().clone().contiguous()
            for name, module in self.modules.items()
            for key, tensor in module.state_dict().items()
        }

    def _put(self, tensors: Mapping[str, Tensor]) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(_under(f"{name}.", tensors))

    def _put_optimizer(self, tensors: Mapping[str, Tensor]) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            number, key = name.split(".")
            state.setdefault(int(number), {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})

    def _write(self, path: Path) -> None:
        from safetensors.torch import save_file

        moments = {
            f"optimizer.{number}.{key}": tensor.detach().clone()
            for number, values in self.optimizer.state_dict()["state"].items()
            for key, tensor in values.items()
        }
        tensors = {
            **{f"best.{name}": tensor for name, tensor in self._best.items()},
            **{f"now.{name}": tensor for name, tensor in self._weights().items()},
            **moments,
        }
        about = {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_loss": self.best_loss,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            metadata = {"sen2pro": json.dumps({**about, "digest": _digest(tensors, about)})}
            save_file(tensors, temporary, metadata=metadata)


def _digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """Return what tells whether a checkpoint is as it was written."""
    digest = ContentDigest()
    for name, tensor in tensors.items():
        digest.numbers(name, tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.value(**about, shapes={name: list(tensor.shape) for name, tensor in tensors.items()})


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
