"""Files of this package on the Hugging Face Hub: write them with a card, push them, and load them from there.

Loading runs no code from a repository: only its `.safetensors` files are fetched.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import EvalResult, HfApi, ModelCardData, snapshot_download

from ncp_control._version import __version__
from ncp_control.base.files import temporary_folder
from ncp_control.base.kinds import Kind, kind_of
from ncp_control.base.text import markdown, markdown_code
from ncp_control.loading import load
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.policies.circuit import actor_circuit

KINDS = (Kind.POLICY, Kind.NETWORK, Kind.DYNAMICS, Kind.SERIES)
CARD = "README.md"


def save_pretrained(file: str | Path, folder: str | Path, description: str = "", license: str | None = None) -> Path:
    """Writes a new folder with a file and its model card, to be read by `from_pretrained`.

    :param file: a `.safetensors` file of an agent, a network, or a model
    :param folder: the folder, which must not exist
    :param description: a sentence or two on what the file is for, for its card
    :param license: the Hub's name of a license, such as "apache-2.0"
    :return: the folder
    """
    file, folder = Path(file), Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists: name a new folder, since a card would replace the one in it")
    text = card_of(file, description, license)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder) as temporary:
        made = temporary / "made"
        made.mkdir()
        shutil.copyfile(file, made / file.name)
        (made / CARD).write_text(text, encoding="utf-8")
        made.rename(folder)
    return folder


def from_pretrained(source: str | Path, file: str | None = None, revision: str | None = None, **options: Any) -> Any:
    """Loads a file from a folder or from a repository of the Hub.

    :param source: a folder, or the name of a repository, such as "user/pole"
    :param file: the file's name, if there are several
    :param revision: a branch, a tag or a commit of the repository
    :param options: further arguments of `ncp_control.load`, such as `device`
    :return: what `ncp_control.load` returns
    """
    folder = Path(source)
    if not folder.is_dir():
        folder = Path(snapshot_download(str(source), revision=revision, allow_patterns=["*.safetensors"]))
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if file is None and len(names) > 1:
        raise ValueError(f"{source} has several files: choose one with file=, from {', '.join(names)}")
    if not names or (file is not None and file not in names):
        raise FileNotFoundError(f"{source} has no file {file or '*.safetensors'}; it has {', '.join(names) or 'none'}")
    return load(folder / (file or names[0]), **options)


def push_to_hub(
    source: str | Path, repo: str, private: bool | None = None, token: str | None = None, **card: Any
) -> str:
    """Uploads a file with a new card, or a folder of `save_pretrained` as it is; makes the repository if need be.

    :param source: the file or the folder; take a folder if you have changed the card by hand
    :param repo: the repository's name, such as "user/pole"
    :param private: whether a new repository is private
    :param token: the token of the Hub; by default the one that `hf auth login` keeps
    :param card: `description` and `license`, as in `save_pretrained`
    :return: the address of the repository
    """
    with TemporaryDirectory() as temporary:
        folder = Path(source)
        if not folder.is_dir():
            folder = save_pretrained(source, Path(temporary) / "made", **card)
        elif card:
            raise ValueError(f"{folder} has its card already: change {folder / CARD}, and leave out {', '.join(card)}")
        api = HfApi(token=token, library_name="ncp_control", library_version=__version__)
        address = str(api.create_repo(repo, private=private, exist_ok=True))
        api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            allow_patterns=["*.safetensors", CARD],
            commit_message=f"Upload with ncp_control {__version__}",
        )
    return address


def card_of(file: Path, description: str = "", license: str | None = None) -> str:
    """Returns a file's model card: the Hub's header with the result, facts of the file and its note, and two lines.

    :param file: the `.safetensors` file
    :param description: a sentence or two on what it is for
    :param license: the Hub's name of a license
    """
    kind = kind_of(file)
    loaded = load(file)  # refuses a file that is missing, damaged or foreign
    if kind not in KINDS:
        raise ValueError(f"{file} is {kind.value if kind else 'nothing of ncp_control'}: give an agent or a network")
    note = getattr(loaded, "note", None) or {}
    tags, results, facts = ["ncp_control", "neural-circuit-policy"], None, []
    if isinstance(loaded, LoadedPolicy):
        tags = ["reinforcement-learning", *tags, "stable-baselines3"]
        circuit = actor_circuit(loaded.policy)
        if circuit is not None:
            wiring = circuit.cell.wiring
            size = f"{wiring.units} neurons, {wiring.existing_synapses} synapses"
            facts.append(("acts", f"{type(circuit.cell).__name__}, {size}"))
        if "env" in note and isinstance(note.get("return"), int | float):
            score = f"{note['return']:.2f}"
            if isinstance(note.get("return_std"), int | float):
                score += f" +/- {note['return_std']:.2f}"
            random = note.get("random")
            facts.append(
                ("return", f"{score}, with {100 * random:.3g} % of the actions at random" if random else score)
            )
            results = [
                EvalResult(
                    task_type="reinforcement-learning",
                    dataset_type=note["env"],
                    dataset_name=note["env"],
                    metric_type="mean_reward",
                    metric_value=score,
                )
            ]
    named = {"environment": "env", "episodes": "episodes", "steps": "steps", "seed": "seed"}
    facts += [(name, markdown(note[key])) for name, key in named.items() if note.get(key) is not None]
    if note.get("command"):
        facts.append(("made by", markdown_code(note["command"])))
    if note.get("versions"):
        facts.append(("versions", markdown(", ".join(f"{name} {number}" for name, number in note["versions"].items()))))
    header = ModelCardData(
        library_name="ncp_control",
        license=license,
        pipeline_tag="reinforcement-learning" if kind is Kind.POLICY else None,
        tags=tags,
        model_name=file.stem,
        eval_results=results,
    )
    use = 'from ncp_control.integrations.hub import from_pretrained\n\nloaded = from_pretrained("USER/REPOSITORY")'
    if kind is Kind.POLICY:
        use += "\naction, state = loaded.predict(observation, state)  # state: None at first"
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts)
    table = f"| | |\n|---|---|\n{rows}\n\n" if facts else ""
    about = description or f"{kind.value.capitalize()} of the Python package ncp_control."
    return f"---\n{header.to_yaml()}\n---\n\n# {markdown(file.stem)}\n\n{about}\n\n{table}```python\n{use}\n```\n"
