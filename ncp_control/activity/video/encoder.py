"""Writing frames into a video file with ffmpeg."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncp_control.base.files import errors_name, temporary_folder

Array = NDArray[Any]
Send = Callable[[Array], None]


@contextmanager
def encoder(path: Path, size: tuple[int, int], fps: float) -> Iterator[Send]:
    """Gives a function that takes the next frame (height, width, 4).

    The file appears at the end of the block. After an error in the block no file appears.

    :param path: ending in .mp4 or .gif
    :param size: width and height in pixels
    :param fps: frames a second
    """
    program = find_ffmpeg()
    gif = path.suffix.lower() == ".gif"
    # The palette of a gif is made from all frames, so they are kept without loss until then.
    quality = ["-crf", "0", "-preset", "ultrafast"] if gif else ["-crf", "19", "-preset", "veryfast"]
    # Players take a video of this size to be in BT.709; ffmpeg would write BT.601, whose greens and purples differ.
    matrix = ["-vf", "scale=out_color_matrix=bt709"]
    for name in ("-colorspace", "-color_primaries", "-color_trc"):
        matrix += [name, "bt709"]
    frames = ["-f", "rawvideo", "-vcodec", "rawvideo", "-s", f"{size[0]}x{size[1]}", "-pix_fmt", "rgba"]
    rate = Fraction(fps).limit_denominator()
    coding = ["-vcodec", "libx264", "-pix_fmt", "yuv444p" if gif else "yuv420p", *quality, *matrix]
    with temporary_folder(path) as folder:
        movie, palette, picture = (folder / name for name in ("movie.mp4", "palette.png", "picture.gif"))
        with ffmpeg(
            path, program, *frames, "-r", str(rate), "-i", "-", "-an", *coding, "-movflags", "+faststart",
            str(movie),
        ) as send:  # fmt: skip
            yield send
        if gif:
            with ffmpeg(path, program, "-i", str(movie), "-vf", "palettegen=stats_mode=full", str(palette)):
                pass
            dither = ["-lavfi", "paletteuse=dither=bayer:bayer_scale=4", "-loop", "0"]
            with ffmpeg(path, program, "-i", str(movie), "-i", str(palette), *dither, str(picture)):
                pass
        with errors_name(path):
            (picture if gif else movie).replace(path)


def find_ffmpeg() -> str:
    """Returns the path of the program."""
    import imageio_ffmpeg

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise ValueError(
            "a video needs ffmpeg, and none was found: run pip install --force-reinstall imageio-ffmpeg, or name one "
            "in the environment variable IMAGEIO_FFMPEG_EXE"
        ) from error


@contextmanager
def ffmpeg(path: Path, program: str, *arguments: str) -> Iterator[Send]:
    """Runs ffmpeg until it ends; the block sends it frames, and an error in the block ends it at once.

    :param path: the video, which errors name
    :param program: the path of ffmpeg
    :param arguments: its arguments after those for all its runs
    """
    with tempfile.TemporaryFile() as words:
        # In a session of its own, so that a Ctrl-C in the terminal reaches only this process.
        child = subprocess.Popen(
            [program, "-y", "-v", "error", *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words,
            start_new_session=True,
        )  # fmt: skip
        assert child.stdin is not None
        pipe = child.stdin

        def send(frame: Array) -> None:
            try:
                pipe.write(np.ascontiguousarray(frame).data)
            except OSError:  # ffmpeg has ended
                fail()

        def fail() -> None:
            child.wait()
            words.seek(0)
            message = words.read().decode(errors="replace").strip()
            if os.strerror(errno.ENOSPC) in message:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            last = message.splitlines()[-1].strip() if message else "it printed no message; is there room on the disk?"
            raise OSError(f"ffmpeg could not write {path}: {last}")

        try:
            yield send
            with suppress(OSError):  # what it says about its end is in its exit code
                pipe.close()
            if child.wait():
                fail()
        finally:
            child.kill()
            child.wait()
            with suppress(OSError):
                pipe.close()
