"""Image decoding as an external function; requires Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from structir.errors import MissingExtraError, ShapeMismatchError
from structir.interpret.extern import register_extern
from structir.lazy import lazy_module

pillow = lazy_module("PIL.Image")
Array = np.ndarray[Any, Any]


def decoded(data: Array, pixels: str) -> Array:
    """Decodes an image file to pixels (height, width, channels).

    Raises ShapeMismatchError for invalid data, MissingExtraError without Pillow.
    """
    try:
        image = pillow.open(io.BytesIO(data.tobytes()))
        image = image.convert("L" if pixels == "Grayscale" else "RGB")
    except ModuleNotFoundError:
        raise MissingExtraError("image decoding needs Pillow: pip install pillow") from None
    except (OSError, ValueError) as error:
        raise ShapeMismatchError(f"cannot decode the image: {error}") from error
    array = np.asarray(image)
    if pixels == "Grayscale":
        return np.ascontiguousarray(array[..., None])
    return np.ascontiguousarray(array[..., ::-1] if pixels == "BGR" else array)


register_extern("picture.decoded", decoded)
