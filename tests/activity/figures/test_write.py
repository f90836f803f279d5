"""Writing all figures of a recording."""

import numpy as np
import pytest

from helpers.recordings import ONE, WORM, make_recording, with_unknown_currents
from ncp_control.activity.figures import write_figures
from ncp_control.activity.figures.write import FIGURES


def test_all_figures_are_written_whole(tmp_path):
    activity = make_recording(ONE, steps=2)
    paths = write_figures(activity, tmp_path / "new" / "figures")
    assert [path.stem for path in paths] == list(FIGURES)
    assert sorted(paths) == sorted((tmp_path / "new" / "figures").iterdir())
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in paths)


@pytest.mark.slow
def test_figures_are_written_in_the_formats_asked_for(tmp_path):
    activity = make_recording(ONE, steps=2)
    paths = write_figures(activity, tmp_path, ("svg", "pdf"))
    assert len(paths) == 2 * len(FIGURES)
    assert sorted(paths) == sorted(tmp_path.iterdir())
    for path in paths:
        assert path.read_bytes().startswith(b"<?xml" if path.suffix == ".svg" else b"%PDF")
    with pytest.raises(ValueError, match="png, svg or pdf, not 'bmp'"):
        write_figures(activity, tmp_path, ("bmp",))


@pytest.mark.system
def test_all_figures_are_written_of_a_recording_with_little_that_is_known(tmp_path):
    activity = with_unknown_currents(make_recording(WORM, time_constants=np.full((40, 7), np.nan)))
    assert len(write_figures(activity, tmp_path)) == len(FIGURES)
