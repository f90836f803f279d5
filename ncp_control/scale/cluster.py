"""Jobs on a cluster of Ray, one that is started here or one that runs already; and the places where jobs can run.

Every job is a task of Ray, which has one core. Ray itself repeats nothing: where a node or a worker is lost, the job is
sent again from here, with the files that it had written, and continues from them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncp_control.base.files import temporary_name
from ncp_control.base.processes import (
    Event,
    Job,
    JobPlace,
    LostError,
    Processes,
    Throttled,
    compute,
    core_count,
    portable,
)
from ncp_control.runs.folder import versions
from ncp_control.scale.couriers import Content, changed_files, pack, scratch_folder, unpack

PACKAGES = ("ncp-control", "torch", "numpy", "gymnasium", "mujoco", "stable-baselines3", "sb3-contrib")
ATTEMPTS = 4  # how often a job is sent before it counts as failed
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_FILES = 10.0
SECONDS_TO_ANSWER = 60.0
SECONDS_TO_CONNECT = 10.0
LARGEST_POST = 2**28  # bytes of files that wait for the driver
STORE = 2**28  # bytes of memory for the objects of a cluster that is started here
HERE = "ray"
FIX = 'pip install "ncp-control[scale]"'


@dataclass
class Cluster:
    """Runs jobs on a cluster of Ray.

    :param address: "ray" starts a cluster on this machine; `ray://HOST:PORT`, `HOST:PORT` or "auto" is one that runs
    :param count: how many jobs run at once; by default as many as the cluster has cores
    :param shared: whether all nodes see the jobs' folder under its path; otherwise Ray brings the files here. By
        default only the nodes of a cluster that is started here do
    :param every: seconds after which changed files are brought here while a job runs
    """

    address: str = HERE
    count: int = 0
    shared: bool | None = None
    every: float = SECONDS_BETWEEN_FILES
    _pending: dict[Any, Job] = field(default_factory=dict, init=False, repr=False)
    _lost: deque[Job] = field(default_factory=deque, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.shared is None:
            self.shared = self.address == HERE

    def run(self, jobs: Iterable[Job], root: Path) -> Generator[Event, None, None]:
        """Runs jobs; see `JobPlace`."""
        ray = imported()
        root = root.absolute()
        with left_as_found(), self._connected(ray):
            if not core_count_of(ray):
                raise ValueError(f"the cluster {self.address} has no cores: start a node with at least one")
            check_nodes(ray, root if self.shared else None)
            # The post is lost only together with the node of this process, and not with any other.
            here = at_node(ray.get_runtime_context().get_node_id())
            post = ray.remote(num_cpus=0)(_Post).options(scheduling_strategy=here).remote()
            # Ray would repeat a job from its beginning; here it goes on from its files.
            begin = ray.remote(num_cpus=1, max_retries=0)(_task)
            inputs: dict[str, Any] = {}
            waiting, attempts = iter(jobs), Counter[str]()
            self._lost, self._pending = deque(), {}
            try:
                while True:
                    room = self.count or core_count_of(ray)
                    while len(self._pending) < room:
                        job = self._lost.popleft() if self._lost else next(waiting, None)
                        if job is None:
                            break
                        attempts[job.name] += 1
                        sent = None if self.shared else self._files_of(ray, job, root, inputs)
                        place = str(root) if self.shared else None
                        reference = begin.remote(job, attempts[job.name], place, sent, post, self.every)
                        self._pending[reference] = job
                    if not self._pending:
                        return
                    # A look five times a second, because files come between the ends of jobs.
                    ready, _ = ray.wait(list(self._pending), timeout=SECONDS_BETWEEN_LOOKS)
                    yield from self._delivered(ray, post, root, attempts)
                    for reference in ready:
                        yield from self._ended(ray, reference, attempts)
            finally:
                for reference in self._pending:
                    with contextlib.suppress(Exception):  # the cluster may be gone already
                        ray.cancel(reference, force=True)
                self._pending = {}

    def cancel(self, name: str) -> None:
        """Ends a job; see `JobPlace`."""
        self._lost = deque(job for job in self._lost if job.name != name)
        for reference in [reference for reference, job in self._pending.items() if job.name == name]:
            del self._pending[reference]
            imported().cancel(reference, force=True)

    @contextlib.contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        """Connects to the cluster, or starts one, unless this process is connected already."""
        if ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send reports to its makers
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address == HERE:
            cores = self.count or core_count()
            loopback = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            ray.init("local", num_cpus=cores, object_store_memory=STORE, **loopback, **quiet)
        else:
            knock(self.address)
            try:
                ray.init(self.address, **quiet)
            except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
                advice = "" if "RAY_AUTH_MODE" in os.environ else " (if it asks for a token, set RAY_AUTH_MODE=token)"
                raise ConnectionError(f"there is no cluster of Ray at {self.address}: {reason}{advice}") from error
        try:
            yield
        finally:
            ray.shutdown()

    def _files_of(self, ray: Any, job: Job, root: Path, inputs: dict[str, Any]) -> tuple[list[Any], Content]:
        """Returns what a job reads, as references that all jobs share, and the files that it has written before."""
        read = [name for name in job.reads if (root / name).exists()]
        for name in read:
            if name not in inputs:
                inputs[name] = ray.put(pack(root, (name,)))
        return [inputs[name] for name in read], pack(root, job.writes)

    def _delivered(self, ray: Any, post: Any, root: Path, attempts: Counter[str]) -> Iterator[Event]:
        """Writes the files that have come, and tells of the progress."""
        while messages := self._taken(ray, post):
            for name, attempt, kind, value in messages:
                if attempt != attempts[name] or not any(job.name == name for job in self._pending.values()):
                    continue  # it was cancelled, or sent again
                if kind == "files":
                    unpack(value, root)
                else:
                    yield Event(name, "progress", progress=value[:2], note=value[2])

    def _taken(self, ray: Any, post: Any) -> Any:
        try:
            return ray.get(post.take.remote())
        except ray.exceptions.RayError as error:
            raise ConnectionError(f"the cluster {self.address} was lost: start it again, then resume") from error

    def _ended(self, ray: Any, reference: Any, attempts: Counter[str]) -> Iterator[Event]:
        """Tells how a task ended; a job that was lost waits again."""
        job = self._pending.pop(reference, None)
        if job is None:
            return
        try:
            kind, value = ray.get(reference)
        except ray.exceptions.RayTaskError as error:  # such as a result that cannot be sent
            yield Event(job.name, "failed", RuntimeError(str(error).strip().splitlines()[-1]))
            return
        except ray.exceptions.RayError as error:
            why = "memory ran out" if "OutOfMemory" in type(error).__name__ else "its node or its worker was lost"
            if attempts[job.name] < ATTEMPTS:
                self._lost.append(job)
                yield Event(job.name, "progress", note=f"{why}: it is sent again")
            else:
                times = f"{why}, {ATTEMPTS} times: give its nodes more memory, or run fewer jobs at once"
                yield Event(job.name, "failed", LostError(times))
            return
        yield Event(job.name, kind, value)


def imported() -> Any:
    """Imports Ray, or says how to install it."""
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"this needs ray, which is missing: {FIX}", name="ray") from None
    return ray


@contextlib.contextmanager
def left_as_found() -> Iterator[None]:
    """Takes back, at the end of the block, what Ray changes in this process: variables, and what SIGTERM does."""
    variables, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        for name in os.environ.keys() | variables.keys():
            if name not in variables:
                del os.environ[name]
            elif os.environ.get(name) != variables[name]:
                os.environ[name] = variables[name]
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def knock(address: str) -> None:
    """Raises ConnectionError if nothing listens at an address; Ray itself would try for ten minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # "auto", which Ray looks up
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"there is no cluster of Ray at {address}: {error}") from error


def core_count_of(ray: Any) -> int:
    """Returns how many cores the cluster has now."""
    return int(ray.cluster_resources().get("CPU", 0))


def at_node(node: str) -> Any:
    """Returns the strategy by which Ray runs a task on this node alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def check_nodes(ray: Any, root: Path | None) -> None:
    """Raises ValueError unless every node has the versions of here, and sees the folder of the jobs.

    A node that is lost meanwhile does not count.

    :param root: the folder that all nodes must see, if they share a disk
    """
    marker = None if root is None else temporary_name(root / "nodes")
    if marker is not None:
        marker.write_text(str(time.time()), encoding="utf-8")
    try:
        ask = ray.remote(num_cpus=0, max_retries=2)(_node)
        path = None if marker is None else str(marker)
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        asked = {ask.options(scheduling_strategy=at_node(node)).remote(path): node for node in nodes}
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=SECONDS_TO_ANSWER)
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        for reference in answered:
            check_answer(ray, reference, nodes[asked[reference]], asked[reference] in alive, root)
        for reference in silent:
            if asked[reference] in alive:
                address = nodes[asked[reference]]
                raise TimeoutError(f"the node {address} did not answer in {SECONDS_TO_ANSWER:.0f} s: stop or mend it")
    finally:
        if marker is not None:
            marker.unlink(missing_ok=True)


def check_answer(ray: Any, reference: Any, address: str, alive: bool, root: Path | None) -> None:
    """Raises ValueError unless a node answered that jobs can run there.

    :param reference: the node's answer
    :param address: the node's address
    :param alive: whether the node is still there
    :param root: the folder that it must see, if any
    """
    here = versions(PACKAGES)
    try:
        host, theirs, sees = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"the node {address} cannot run ncp-control: {reason}") from error
    except ray.exceptions.RayError as error:
        if not alive:
            return
        raise ValueError(f"the node {address} runs nothing: {type(error).__name__}") from error
    other = [f"{name} {theirs.get(name, 'is missing')}" for name in here if theirs.get(name) != here[name]]
    if other:
        wanted = ", ".join(f"{name} {version}" for name, version in here.items() if theirs.get(name) != version)
        raise ValueError(f"the node {host} has {', '.join(other)}, and this machine {wanted}: install the same there")
    if not sees:
        raise ValueError(f"the node {host} does not see {root}: mount it there, or leave out --shared")


def _node(marker: str | None) -> tuple[str, dict[str, str], bool]:
    """Tells a node's name, its versions, and whether it sees a file."""
    return socket.gethostname(), versions(PACKAGES), marker is None or Path(marker).exists()


class _Post:
    """Holds messages of tasks until the driver takes them."""

    def __init__(self) -> None:
        self.messages: deque[tuple[str, int, str, Any]] = deque()
        self.size = 0

    def put(self, name: str, attempt: int, kind: str, value: Any) -> bool:
        """Takes a message; returns whether there was room for it."""
        size = _size(kind, value)
        # A single message always fits, or a large file would wait for ever.
        if self.size and self.size + size > LARGEST_POST:
            return False
        self.messages.append((name, attempt, kind, value))
        self.size += size
        return True

    def take(self) -> list[tuple[str, int, str, Any]]:
        """Gives some of the messages, in the order in which they came."""
        taken: list[tuple[str, int, str, Any]] = []
        size = 0
        while self.messages and size < LARGEST_POST // 4:
            taken.append(self.messages.popleft())
            size += _size(*taken[-1][2:])
        self.size -= size
        return taken


def _size(kind: str, value: Any) -> int:
    return sum(len(content or b"") for content in value.values()) if kind == "files" else 0


def _task(
    job: Job, attempt: int, root: str | None, sent: tuple[list[Any], Content] | None, post: Any, every: float
) -> tuple[str, Any]:
    """Computes a job on a node.

    :param attempt: how often the job was sent
    :param root: the folder of the jobs, if this node sees it
    :param sent: what the job reads and has written before, if it does not
    :param post: takes messages
    :param every: seconds after which changed files are sent
    """
    import ray

    def tell(kind: str, value: Any) -> None:
        # The driver is slower than the tasks: they wait, and the post does not grow.
        while not ray.get(post.put.remote(job.name, attempt, kind, value)):
            time.sleep(SECONDS_BETWEEN_LOOKS)

    report = Throttled(lambda said: tell("progress", said))
    try:
        if root is not None:
            return "done", compute(job, Path(root), report)
        assert sent is not None
        read, written = sent
        with scratch_folder() as folder:
            for content in (*ray.get(read), written):
                unpack(content, folder)
            with changed_files(folder, job.writes, every, lambda found: tell("files", found)):
                return "done", compute(job, folder, report)
    except Exception as error:
        return "failed", portable(error)


LOCAL = "local"
ADDRESS = re.compile(r"(ray://)?[\w.\-\[\]:]+:\d+")


def place_of(name: str, workers: int | None = None, shared: bool | None = None) -> JobPlace:
    """Returns the place that a name means.

    :param name: "local", processes of this machine; "ray", a cluster of Ray that is started here; `ray://HOST:PORT`,
        `HOST:PORT` or "auto", a cluster that runs already
    :param workers: how many jobs run at once; by default one for each core
    :param shared: whether all nodes of a cluster see the jobs' folder under its path
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if name == LOCAL:
        if shared is not None:
            raise ValueError("--shared is for a cluster: processes of this machine share its disk")
        return Processes(workers or core_count())
    if name in (HERE, "auto") or ADDRESS.fullmatch(name):
        imported()  # it is missed here, before anything is written
        return Cluster(name, workers or 0, shared)
    raise ValueError(f"there is no place {name!r} to run on: choose local, ray, auto, HOST:PORT or ray://HOST:PORT")
