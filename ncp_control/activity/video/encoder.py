"""Writing frames into a video file with ffmpeg."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@contextmanager
def encoder(path: Path, size: tuple[int, int], fps: float) -> Iterator[Callable[[Array], None]]:
    """Gives a function that takes the next frame (height, width, 4).

    The file appears at the end of the block. After an error in the block no file appears.

    :param path: ending in .mp4 or .gif
    :param size: width and height in pixels
    :param fps: frames a second
    """
    import imageio_ffmpeg

    try:
        program = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise ValueError(
            "a video needs ffmpeg, and none was found: run pip install --force-reinstall imageio-ffmpeg, or name one "
            "in the environment variable IMAGEIO_FFMPEG_EXE"
        ) from error
    gif = path.suffix.lower() == ".gif"
    movie = path.with_name(f".{path.name}.{os.getpid()}.tmp.mp4")
    palette, picture = movie.with_suffix(".png"), movie.with_suffix(".gif")
    # The palette of a gif is made from all frames, so they are kept without loss until then.
    quality = ["-crf", "0", "-preset", "ultrafast"] if gif else ["-crf", "19", "-preset", "veryfast"]
    # Players take a video of this size to be in BT.709; ffmpeg would write BT.601, whose greens and purples differ.
    matrix = ["-vf", "scale=out_color_matrix=bt709"]
    for name in ("-colorspace", "-color_primaries", "-color_trc"):
        matrix += [name, "bt709"]
    writer = imageio_ffmpeg.write_frames(
        str(movie), size, pix_fmt_in="rgba", pix_fmt_out="yuv444p" if gif else "yuv420p", fps=fps, quality=None,
        codec="libx264", macro_block_size=2, ffmpeg_log_level="error",
        output_params=[*quality, *matrix, "-movflags", "+faststart"],
    )  # fmt: skip
    try:
        writer.send(None)
        count = 0

        def send(frame: Array) -> None:
            nonlocal count
            writer.send(np.ascontiguousarray(frame))
            count += 1

        yield send
        writer.close()
        if frames_in(movie) != count:
            raise OSError(f"ffmpeg did not write the whole of {path}: is there room on the disk?")
        if gif:
            run_ffmpeg(program, "-i", str(movie), "-vf", "palettegen=stats_mode=full", str(palette))
            run_ffmpeg(
                program, "-i", str(movie), "-i", str(palette), "-lavfi", "paletteuse=dither=bayer:bayer_scale=4",
                "-loop", "0", str(picture),
            )  # fmt: skip
        (picture if gif else movie).replace(path)
    finally:
        writer.close()
        for temporary in (movie, palette, picture):
            temporary.unlink(missing_ok=True)


def frames_in(path: Path) -> int:
    """Returns how many frames a video has; 0 if the file is not a video."""
    import imageio_ffmpeg

    with suppress(RuntimeError, OSError):
        return int(imageio_ffmpeg.count_frames_and_secs(str(path))[0])
    return 0


def run_ffmpeg(program: str, *arguments: str) -> None:
    """Runs ffmpeg until it ends."""
    done = subprocess.run(
        [program, "-y", "-v", "error", *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"ffmpeg failed: {words[-1] if words else 'it printed no message'}")
