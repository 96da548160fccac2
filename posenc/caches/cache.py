"""The key-value cache of one layer, growing by each token that it is given."""

import inspect
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from posenc.caches.cached_positions import bounded, continued
from posenc.caches.checks import (
    check_alike,
    check_all_counted,
    check_all_told,
    check_complete,
    check_length_known,
    check_payload_fits,
    check_prefix,
    check_reads_rotated,
    check_rows,
    check_unmoved,
    parts_of,
    signature_of_all,
    turn_of_keys,
)
from posenc.caches.growing_buffer import GrowingBuffer, joined
from posenc.dispatch_rotation import rotated
from posenc.errors import CacheError, given, whole
from posenc.lowering import Lowerable, Lowered
from posenc.positions import Documents, Positions, as_positions
from posenc.tokens_ahead import Ahead
from posenc.torch_modes import arithmetic
from posenc.transform import multiplied_keys
from posenc.value_rotation import turned

Policy = Literal["rotated", "raw"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class Cache:
    """Keys and values of one layer, appended by `attend`.

    policy  "rotated" keeps keys as they were turned: one turn per token. Legal only where the
            angles of a token never change.
            "raw" keeps keys as given and turns all of them at each step; a term that reads keys
            unturned, two zones, or factors that grow with position need it
    length  the length up to which tokens will be decoded; encodings whose angles depend on length
            (DynamicNTK, DynamicYaRN, LongRoPE) are fixed to it, and cannot be decoded without it:
            with several layers no policy makes growing lengths equal the full forward

    Cached decoding equals the full forward for every encoding that it accepts, with the same
    encoding at each step. Where the first call was padded or packed, later ones need no positions:
    each row counts on from its last real token. Raises SettingError for a length below 1, and
    CacheError for everything else that it can tell; a call that fails leaves it as it was.

    k, v      what it holds, (b, g, t, d) and (b, g, t, d_v); None while it is empty
    payload   what `Encoding.payload` made of these tokens, (b, ..., t)
    placed    where they are, as positions of the last call; None where nobody knows
    rotation_signature  how its keys were rotated: layout, first dimension, pairs and gain

    Example: `attend(q, k, v, Rotary(64), causal=True, cache=cache)`, at every step with the new
    tokens only.
    """

    # Whether it holds all tokens so far, and nothing else.
    complete: ClassVar[bool] = True

    def __init__(self, policy: Policy = "rotated", length: int | None = None) -> None:
        kind = type(self).__name__
        if policy not in POLICIES:
            raise CacheError(f"{kind}(policy={policy!r}): policy is 'rotated' or 'raw'")
        whole(kind, **given(length=length))
        self.policy, self.length = policy, length
        self.k: Tensor | None = None
        self.v: Tensor | None = None
        self.payload: Tensor | None = None
        # The memory that keys and values grow in, until they are moved out of it.
        self.buffers: tuple[GrowingBuffer | None, GrowingBuffer | None] = (None, None)
        # None while nothing is held; () for keys that no term rotated.
        self.rotation_signature: tuple[Any, ...] | None = None
        # What the terms of tokens to come are, where their numbers tell it.
        self.ahead: Ahead | None = None
        self.placed = None

    def __len__(self) -> int:
        """How many tokens it holds."""
        return 0 if self.k is None else self.k.shape[-2]

    @property
    def placed(self) -> Positions | None:
        if self.counted is not None:
            ahead, count = self.counted
            self.placed = ahead.placed(count)
        return self._placed

    @placed.setter
    def placed(self, positions: Positions | None) -> None:
        self._placed = positions
        # What tells where the tokens are that were counted on since, and how many there are by
        # now. To make positions in every step, which reads none, would take a fifth of its time.
        self.counted: tuple[Ahead, int] | None = None

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({settings}) holding {len(self)} tokens"

    def keys(self, new: int) -> int:
        """How many keys the queries of a call with `new` tokens meet."""
        return len(self) + new

    def place(
        self,
        new: int,
        positions: Positions | Tensor | None = None,
        encoding: Lowerable = None,
        *,
        q_len: int | None = None,
        causal: bool | None = None,
        device: torch.device | None = None,
    ) -> Positions:
        """Positions of `new` tokens and of all keys that they meet; `attend` calls this.

        positions  those of all tokens so far, evicted ones too, the new ones last; None continues
                   what is held
        encoding   a list with Documents tells of all tokens by itself
        q_len      number of queries, the last of the new tokens; None: as many

        Raises CacheError where held keys were placed by explicit ids, which nobody can continue,
        and where keys that were turned at one place are said to be at another.
        """
        q_len = new if q_len is None else q_len
        anew = any(isinstance(part, Documents) for part in parts_of(encoding))
        self._check_room(new, q_len)
        if positions is not None:
            positions = self._told(positions, new, q_len, causal)
            if self.placed is not None and self.rotation_signature:
                check_unmoved(self, self.placed, positions)
        elif anew or self._begins():
            if self.placed is not None and causal is None:
                causal = self.placed.causal
            positions = as_positions(None, q_len, self.keys(new), causal=causal, device=device)
        else:
            positions = self._following(new, q_len, causal)
        return positions if self.length is None else bounded(positions, self.length)

    def check(self, encoding: Lowerable, new: int) -> None:
        """Raise CacheError where decoding `new` more tokens could not equal the full forward."""
        if new < 1:
            raise CacheError(f"{self!r} was given no token: leave the call away")
        self._check_room(new, new)
        if not self.complete:
            check_complete(self, encoding)
        check_length_known(self, self.length, encoding, self.placed)

    def payload_with(self, new: Tensor | None) -> Tensor | None:
        """The payload of every token so far and of the new ones; `append` keeps it."""
        if new is None or self.payload is None:
            return new
        check_payload_fits(self, self.payload, new)
        return self._payload_joined(self.payload, new)

    def _payload_joined(self, held: Tensor, new: Tensor) -> Tensor:
        return torch.cat((held, new), dim=-1)

    def own(self, new: int) -> Tensor | None:
        """Which keys `new` tokens are, int64 (new,), among those of `keys`; None: the last."""
        return None

    def append(
        self, k: Tensor, v: Tensor, lowered: Lowered, payload: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Lowered]:
        """All keys and values so far, and terms that know whether these keys are turned."""
        k, v, lowered = self._ready(k, v, lowered)
        if self.k is not None and self.v is not None:
            k, v = self._joined(self.k, k, self.v, v)
        self.k, self.v, self.payload = k, v, payload
        self.placed = lowered.positions
        return k, v, lowered

    def reset(self) -> None:
        """Forget every token."""
        self.k = self.v = self.payload = self.placed = self.rotation_signature = None
        self.buffers, self.ahead = (None, None), None

    def reorder(self, rows: Tensor) -> None:
        """Take these rows of the batch, int64 (b_new,), as a beam search does after each step.

        Raises CacheError for rows of another shape or dtype, and, on the CPU, for those it has not.
        """
        check_rows(self, rows, self.k)
        if self.k is None or self.v is None:
            return
        # A payload of one row beside several keeps it, which holds for all of them.
        if self.payload is not None and self.payload.shape[0] == self.k.shape[0]:
            self.payload = self.payload.index_select(0, rows)
        self.k, self.v = self.k.index_select(0, rows), self.v.index_select(0, rows)
        self.buffers = (None, None)
        if self.placed is not None:
            queries, keys = (side.rows(rows) for side in (self.placed.queries, self.placed.keys))
            self.placed = replace(self.placed, queries=queries, keys=keys)

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens, as when speculative decoding rejects the others.

        Raises CacheError for more tokens than are held, or for less than none.
        """
        self._check_kept(length)
        if length == 0:
            self.reset()
        if self.k is None or self.v is None:
            return
        # Copies, so that the memory of the others is given back.
        self.k, self.v = self.k[:, :, :length].clone(), self.v[:, :, :length].clone()
        self.buffers = (None, None)
        if self.payload is not None:
            self.payload = self.payload[..., :length].clone()
        if self.placed is not None:
            keys = replace(self.placed.keys[:length], length=None)
            self.placed = replace(self.placed, queries=keys, keys=keys)

    def saved(self) -> dict[str, Any]:
        """What `restore` goes back to; nothing that a call puts in place of it is copied."""
        return vars(self).copy()

    def restore(self, state: dict[str, Any]) -> None:
        """Be as when the state was `saved`."""
        vars(self).update(state)

    def _check_kept(self, length: int) -> None:
        if isinstance(length, (bool, float)) or not 0 <= length <= len(self):
            raise CacheError(f"{self!r}.truncate({length}): it can keep 0 to {len(self)} of them")

    def _check_room(self, new: int, q_len: int) -> None:
        if self.length is not None and len(self) + new > self.length:
            raise CacheError(
                f"{self!r} was asked for {new} more: it was made for length={self.length} at most"
            )

    def _begins(self) -> bool:
        """Whether tokens are counted from 0, where nobody told of a place."""
        return self.placed is None

    def _following(self, new: int, q_len: int, causal: bool | None) -> Positions:
        """Positions that continue those of what is held."""
        placed = check_all_counted(self, self.placed, new)
        return continued(placed, new, q_len, causal, self.length)

    def _told(self, at: Positions | Tensor, new: int, q_len: int, causal: bool | None) -> Positions:
        """Positions of the keys that are met, from those that the caller gives."""
        if isinstance(at, Tensor):
            check_all_told(self, at, self.keys(new), new)
        return as_positions(at, q_len, self.keys(new), causal=causal)

    def _joined(self, k: Tensor, new_k: Tensor, v: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values that are held, each with the new ones."""
        k, k_buffer = joined(k, new_k, self.buffers[0], self.length)
        v, v_buffer = joined(v, new_v, self.buffers[1], self.length)
        self.buffers = k_buffer, v_buffer
        return k, v

    def _ready(self, k: Tensor, v: Tensor, lowered: Lowered) -> tuple[Tensor, Tensor, Lowered]:
        """New keys and values as they will be kept, and terms, or the error that keeps them out."""
        check_alike(self, "keys", self.k, k)
        check_alike(self, "values", self.v, v)
        check_prefix(self, lowered)
        if self.policy == "rotated":
            return self._rotate_new(k, v, lowered)
        if lowered.keys_prerotated:
            raise CacheError(
                f"these terms rotate the new keys only, but {self!r} keeps none rotated: "
                "lower them without keys_prerotated=True"
            )
        return k, v, lowered

    def _rotate_new(self, k: Tensor, v: Tensor, lowered: Lowered) -> tuple[Tensor, Tensor, Lowered]:
        check_reads_rotated(self, lowered.terms, k.shape[1])
        form, rotate = lowered.form, turn_of_keys(lowered.terms)
        if self.rotation_signature not in (None, signature := signature_of_all(rotate, form)):
            raise CacheError(
                f"{self!r}, whose keys were turned as {self.rotation_signature} (layout, first "
                f"dimension, pairs, gain), but these terms turn as {signature}: give the encoding "
                "of the calls before"
            )
        k = multiplied_keys(k, form.transform, self._of_new)
        k_waves = None if rotate is None else form.waves(arithmetic(k))[1]
        if rotate is not None and k_waves is not None:
            cos, sin = (self._of_new(wave, k.shape[-2]) for wave in k_waves)
            k = rotated((k,), (cos,), (sin,), rotate.layout, rotate.start)[0]
        v = turned(v, form, self._of_new)
        if any(x is not None for x in (k_waves, form.value_rotation, form.transform)):
            lowered = lowered.with_rotated_keys
        self.rotation_signature = signature
        return k, v, lowered

    def _of_new(self, wave: Tensor, new: int) -> Tensor:
        """cos or sin of the new keys, out of those of all keys that the terms turn."""
        return wave if wave.shape[-2] == new else wave[..., -new:, :]
