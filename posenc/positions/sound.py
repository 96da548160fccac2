"""Sound among the tokens of a video: both begin where the run of their tokens does."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import reading_values


def runs_of(among: Bool[Tensor, "b t"], starts: Bool[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """A number for each token that only tokens of its own run share, of those marked."""
    edge = starts | ~among
    edge[:, 1:] |= ~among[:, :-1]
    return (edge.reshape(-1).long().cumsum(0) - 1).view(among.shape)


@dataclass(frozen=True, eq=False)
class Films:
    """Runs of videos and sound with nothing in between.

    runs          a number per token, which those of a run share
    video, sound  which tokens are of the one and of the other
    inside        the index of a token among the sound of its run
    """

    runs: Int[Tensor, "b t"]
    video: Bool[Tensor, "b t"]
    sound: Bool[Tensor, "b t"]
    inside: Int[Tensor, "b t"]

    @classmethod
    def among(cls, types: Int[Tensor, "b t"], starts: Bool[Tensor, "b t"]) -> "Films":
        video, sound = types == 2, types == 3
        runs = runs_of(video | sound, starts)
        heard = sound.long().cumsum(-1) - sound.long()
        changes = torch.ones_like(sound)
        changes[:, 1:] = runs[:, 1:] != runs[:, :-1]
        inside = heard - torch.where(changes, heard, 0).cummax(-1).values
        return cls(runs, video, sound, inside)

    def together(self, advance: Tensor, own: Tensor, tied_marks: bool) -> tuple[Tensor, Tensor]:
        """How far each token moves what follows, and its own run, where a run has sound."""
        sounds = self._over_run(self.sound.long(), "sum")
        videos = self._over_run((self.video & (advance > 0)).long(), "sum")
        if reading_values():
            self._check_one_video(sounds, videos)
        extent = self._over_run(torch.where(self.video, own, 0), "amax").maximum(sounds)
        heard = (self.sound | self.video) & (sounds > 0)
        first, last = heard.clone(), heard.clone()
        changes = self.runs[:, 1:] != self.runs[:, :-1]
        first[:, 1:] &= changes
        last[:, :-1] &= changes
        advance = torch.where(heard, torch.where(first, extent, 0), advance)
        own = torch.where(heard, extent, own)
        if tied_marks:
            # The second mark before such a run, and the second one behind it, move nothing.
            seen = videos > 0
            tied = torch.zeros_like(heard)
            tied[:, :-1] |= (first & seen)[:, 1:]
            tied[:, 2:] |= (last & seen)[:, :-2]
            advance = torch.where(tied, 0, advance)
        return advance, own

    def _over_run(self, values: Tensor, by: str) -> Tensor:
        flat, runs = values.reshape(-1), self.runs.reshape(-1)
        return torch.zeros_like(flat).scatter_reduce(0, runs, flat, by)[runs].view(values.shape)

    def _check_one_video(self, sounds: Tensor, videos: Tensor) -> None:
        for row, column in (self.sound & (videos > 1)).nonzero().tolist()[:1]:
            raise PositionsError(
                f"Positions.mrope: the sound at row {row}, token {column} lies in a run of "
                f"{int(videos[row, column])} videos and {int(sounds[row, column])} tokens of "
                "sound: which of them it belongs to nobody can tell, so put a token of text "
                "between two videos"
            )
