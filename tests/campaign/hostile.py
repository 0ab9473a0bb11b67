"""Files and folders that somebody has made up to do harm, given to every command that takes such a file.

Arrays, images and tables that declare what they do not hold or expand to what no memory holds; links, devices and pipes
in place of files; JSON that is nested a hundred thousand deep; folders of ours whose manifests match their digests and
say nonsense; modules that lie in the working directory and write a canary when they are imported. The command must end
in seconds, in one line or well, with little memory, with no canary written, and with the user's other files untouched.
"""

import io
import json
import os
import random as randoms
import socket
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from sparse_langevin.posterior.encoding import Mask, pack
from sparse_langevin.storage.artefact import MANIFEST
from sparse_langevin.storage.files import canonical, sha256
from sparse_langevin.storage.lines import write_line
from tests.campaign.arguments import AT_WORK, run_watched
from tests.campaign.ground import MAKE
from tests.campaign.trials import Trial, require

PART = "hostile files"
NUMBER = 560
SECONDS, MEGABYTES = 30.0, 500.0  # of time enough for a busy machine, and of memory beyond the start
FRESH = 60.0  # seconds for a process that loads everything itself
GROUND = ("data", "runs", "small", "x.npy", "y.npy", "kappa.npy", "table.csv")
ROOT = Path(__file__).parents[2]
DEEP = "[" * 100_000
CANARY = "import pathlib\npathlib.Path(__file__).with_name('canary').touch()\npathlib.Path('canary').touch()\n"
OWN = "from sparse_langevin.problems.arrays.networks import MLP as Network\n"
IMAGE = "generate image --nx 5 --ny 4 --samples 4 --workers 0 --out new --image {}"
ARRAYS = (
    "import {} --out new --workers 0",
    "import --inputs {} --outputs y.npy --out new",
    "import --inputs x.npy --outputs {}:x --out new",
    "import --inputs x.npy --outputs y.npy --low {} --out new",
    "predict runs/mine --input {} --out new.npz",
    "predict runs/kle --input {} --out new.npz",
    "predict small --input {} --out new.npz",
    IMAGE,
)
NAMED = tuple(  # a network of the user's own, in a working directory with other modules
    f"train --data data/mine --run new --epochs 1 --samples 1 --network own:Network --{more}"
    for more in ("momentum 0", "chains 2", "tensorboard")
)
LINKED = ("hdf5 external.h5", "hdf5 virtual.h5", "hdf5 link.h5", "hdf5 soft.h5", "external shard", "virtual shard")
TABLE = ("select {} --target y --out new.html",)
ON = {  # what reads each folder
    "data/mine": (
        *("info data/mine", "info data/mine --verify", "evaluate runs/mine", "report runs/mine --out new.html"),
        *(
            "evaluate runs/mine --data data/mine",
            "train --data data/mine --run new --epochs 1 --network-option width=4",
        ),
        *(
            "predict runs/mine --input x.npy --out new.npz --recalibrated --data data/mine",
            "export runs/mine --out new",
        ),
    ),
    "data/kle": (
        *("info data/kle", "info data/kle --code 2", "show data/kle --out new.png", "convert data/kle --out new.npz"),
        *("convert data/kle --out new.vti", "evaluate runs/kle --data data/kle", "report runs/kle --out new.html"),
        "train --data data/kle --run new --epochs 1",
    ),
    "runs/mine": (
        *("evaluate runs/mine", "report runs/mine --out new.html", "export runs/mine --out new"),
        *("predict runs/mine --input x.npy --out new.npz", "predict runs/mine --input x.npy --out new.npz --last"),
        *("predict runs/mine --input x.npy --out new.npz --recalibrated", " ".join(map(str, MAKE["train"]))),
    ),
    "runs/kle": (
        *("evaluate runs/kle", "report runs/kle --out new.html", "predict runs/kle --input kappa.npy --out new.npz"),
        *("export runs/kle --out new", "predict runs/kle --input kappa.npy --out new.vti"),
    ),
    "runs/half": (
        " ".join(map(str, MAKE["train"])).replace("runs/mine", "runs/half").replace("--epochs 6", "--epochs 4000"),
        "evaluate runs/half",
    ),
    "small": ("predict small --input x.npy --out new.npz", "export runs/mine --out small --force"),
}
ON["runs/mine/samples"] = ON["runs/mine"][:2] + ON["runs/mine"][3:]
ON["runs/kle/chain-1"] = ON["runs/kle"][:3]
ODD = (  # in place of anything in a manifest
    *(None, [], {}, "", "../../../etc/passwd", "/dev/zero", -1, 0, 10**9, 10**30, 1e308, float("nan"), True, "nothing"),
    *(
        [[]],
        {"a": 1},
        "a" * 10**5,
        [0] * 10**4,
        [10**6, 10**6],
        0.5,
        "nan",
        "\0",
        "planted:Net",
        "\ud800",
        "$x$ <b>[red]",
    ),
)


def trials(random):
    """All crafted files with some of the commands that take them, and many made-up manifests."""
    made = []
    for name, _ in sorted(FILES.items()):
        kind = name.split()[0]
        commands = {"csv": TABLE, "image": (IMAGE,)}.get(kind, ARRAYS)
        chosen = random.sample(commands, min(3, len(commands)))
        made += [_trial(f"{kind} files", "file", name, command, random) for command in chosen]
    for name in SPECIAL:
        for command in random.sample(
            (*ARRAYS, *TABLE, "info {}", "evaluate {}", "predict {} --input x.npy --out n.npz"), 4
        ):
            made.append(_trial("pipes, devices and links", "special", name, command, random))
    for folder, name in [(folder, name) for folder in ON for name in PLACES]:
        if random.random() < 0.5:
            made.append(
                _trial("pipes, devices and links", "inside", f"{folder} {name}", random.choice(ON[folder]), random)
            )
    for folder, name in [(folder, name) for folder, names in CONTENTS.items() for name in names]:
        for command in random.sample(ON[folder], min(2, len(ON[folder]))):
            made.append(_trial("contents with right digests", "contents", f"{folder} {name}", command, random))
    for name in PLANTED:
        made.append(_trial("planted code", "planted", name, random.choice(ON["runs/mine"][:5]), random))
    made += [_trial("planted code", "fresh", name, name, random) for name in ("info data/mine", *ON["runs/mine"][:4])]
    made += [_trial("planted code", "beside", name, name, random) for name in NAMED]
    folders = [folder for folder in ON if folder != "runs/half"]
    while len(made) < NUMBER:
        folder = random.choice(folders)
        made.append(_trial("made-up manifests", "manifest", folder, random.choice(ON[folder]), random))
    return made


def _trial(group, kind, name, command, random):
    seed = random.randrange(10**6)
    return Trial(f"{kind} {name} {seed}: {command}", group, (kind, name, command, seed))


def attempt(ground, scratch, trial):
    """Lay the trap, run the command, and look whether it has sprung."""
    kind, name, command, seed = trial.facts
    folder = scratch / "work"
    folder.mkdir()
    ground.copy(folder, *GROUND)
    Image.fromarray(np.eye(30, dtype=np.uint8) * 255).save(folder / "facies.png")
    (scratch / "victim").write_text("Mine.\n")
    given = MAKERS[kind](folder, name, randoms.Random(seed))
    words = [word.format(given) if "{" in word and given else word for word in command.split()]
    if kind in ("fresh", "beside"):
        _run_fresh(words, folder)
        result = "accepted"
    else:
        goes_on = "runs/half" in command  # it was given 4000 epochs
        outcome = run_watched(words, folder, AT_WORK if goes_on else SECONDS)
        require("Traceback" not in outcome.err, f"a traceback: {outcome.line}")
        require(outcome.grown < MEGABYTES, f"it took {outcome.grown:.0f} MB of memory, exit code {outcome.code}")
        require(outcome.code is not None or goes_on, f"it was still running after {SECONDS:.0f} s")
        require(outcome.code in (0, None) or outcome.refused, f"exit code {outcome.code}: {outcome.err[-800:]!r}")
        result = {0: "harmless", 2: "refused", None: "harmless"}[outcome.code]
    require(result == "refused" or not name.endswith(LINKED), "the contents of another file were read")
    canaries = [path for path in scratch.rglob("canary")]
    require(not canaries, f"planted code was run: {canaries}")
    require((scratch / "victim").read_text() == "Mine.\n", "a file outside was changed")
    return result


def _run_fresh(words, folder):
    """Run the installed command in a process that has loaded nothing yet."""
    command = [str(Path(sys.executable).with_name("sparse-langevin")), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=FRESH)
    require(done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-500:]}")


# Files with arrays, tables and pictures.


def _head(shape, descr="<f8", version=1):
    buffer = io.BytesIO()
    about = {"descr": descr, "fortran_order": False, "shape": shape}
    getattr(np.lib.format, f"write_array_header_{version}_0")(buffer, about)
    return buffer.getvalue()


def _zipped(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)


def _zip_bomb(path, random):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        member.write(_head((2**27,)))
        for _ in range(2**6):
            member.write(bytes(2**24))


def _lying_zip(path, random):
    np.savez(path, x=np.ones((60, 3)), kappa=np.ones((2, 6, 8)))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 20 : place + 28] = struct.pack(
        "<II", *random.choice([(100, 100), (2**31, 2**31), (0, 0), (1, 2**32 - 1)])
    )
    path.write_bytes(data)


def _hdf5(build):
    def write(path, random):
        np.full(600, 7.0).tofile(path.with_name("secret"))
        with h5py.File(path.with_name("secret.h5"), "w") as file:
            file["x"] = np.full((60, 3), 7.0)
        with h5py.File(path, "w") as file:
            for name in ("x", "kappa", "inputs"):
                build(file, name, path, random)

    return write


def _external(file, name, path, random):
    file.create_dataset(name, (60, 3), "f8", external=[(str(path.with_name("secret")), 0, 1440)])


def _virtual(file, name, path, random):
    layout = h5py.VirtualLayout((60, 3), "f8")
    layout[:] = h5py.VirtualSource(path.with_name("secret.h5"), "x", (60, 3))
    file.create_virtual_dataset(name, layout)


def _soft(file, name, path, random):
    file[f"_{name}"] = h5py.ExternalLink("secret.h5", "/x")
    file[name] = h5py.SoftLink(f"/_{name}")


def _set(file, name, shape, kind="f8", **more):
    file.create_dataset(name, shape, kind, **more)


def _cycle(file, name, path, random):
    file[name] = file["/"] if random.random() < 0.5 else h5py.SoftLink(f"/{name}")


def _chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def _png(width, height, data=b"", depth=8, colour=0, more=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = _chunk(b"IHDR", head) + more + _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _tiff(width, height, random):
    buffer = io.BytesIO()
    Image.fromarray(np.eye(30, dtype=np.uint8)).save(buffer, "TIFF")
    data = bytearray(buffer.getvalue())
    for old, new in ((256, width), (257, height)):
        place = data.index(struct.pack("<HHI", old, 4, 1)) if struct.pack("<HHI", old, 4, 1) in data else None
        if place is not None:
            data[place + 8 : place + 12] = struct.pack("<I", new)
    return bytes(data)


def _broken(saved):
    """Bytes of a good file, some of them replaced."""

    def write(path, random):
        data = bytearray(saved(path))
        for _ in range(random.choice([1, 3, 30])):
            data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data[: random.choice([len(data), len(data) // 2])])

    return write


def _saved_image(format):
    def save(path):
        buffer = io.BytesIO()
        Image.fromarray(np.eye(30, dtype=np.uint8) * 255).save(buffer, format)
        return buffer.getvalue()

    return save


def _saved(function, **arrays):
    def save(path):
        buffer = io.BytesIO()
        function(buffer, **arrays)
        return buffer.getvalue()

    return save


def _text(text):
    return lambda path, random: path.write_bytes(text if isinstance(text, bytes) else text.encode())


def _rows(header, row, count=40):
    return _text(header + "\n" + "\n".join([row] * count) + "\n")


def _classes(count):
    return _text("a,b,y\n" + "\n".join(f"{i % 7},{i % 11},class{i % count}" for i in range(3 * count)) + "\n")


def _named(names):
    random = np.random.default_rng(0)
    lines = [",".join(f"{v:.3f}" for v in row) for row in random.standard_normal((30, len(names) + 1))]
    return _text(",".join([*names, "y"]) + "\n" + "\n".join(lines) + "\n")


FILES = {
    "npy long.npy": _text(_head((10**9, 1000)) + bytes(80)),
    "npy huge.npy": _text(_head((2**62, 2**62)) + bytes(80)),
    "npy negative.npy": _text(_head((-1, 3)) + bytes(240)),
    "npy many.npy": _text(_head((1,) * 60) + bytes(8)),
    "npy empty.npy": _text(_head((0, 10**15))),
    "npy zero.npy": _text(_head((10**15, 0))),
    "npy objects.npy": _text(_head((3,), "|O") + b"cos\nsystem\n(S'touch canary'\ntR."),
    "npy record.npy": _text(_head((3,), [("a", "<f8"), ("b", "|S8")]) + bytes(48)),
    "npy dates.npy": _text(_head((60, 3), "<M8[s]") + bytes(1440)),
    "npy words.npy": _text(_head((60, 3), "<U1000000") + bytes(1440)),
    "npy complex.npy": _text(_head((60, 3), "<c16") + bytes(2880)),
    "npy halves.npy": _text(_head((60, 3), "<f2") + bytes([255, 127] * 180)),
    "npy nested.npy": _text(b"\x93NUMPY\x02\x00" + struct.pack("<I", 100_001) + b"(" * 100_000 + b"\n"),
    "npy code.npy": _text(b"\x93NUMPY\x01\x00" + struct.pack("<H", 40) + b"__import__('os').system('touch canary')\n"),
    "npy third.npy": _text(b"\x93NUMPY\x03\x00" + _head((3,), version=2)[8:] + bytes(24)),
    "npy wide.npy": _text(_head((2**31, 2**31, 2**31, 2**31), "<f8") + bytes(80)),
    "npz bomb.npz": _zip_bomb,
    "npz lying.npz": _lying_zip,
    "npz long.npz": lambda path, random: _zipped(
        path, {"x.npy": _head((10**9, 1000)), "kappa.npy": _head((10**9, 9, 9))}
    ),
    "npz crowd.npz": lambda path, random: _zipped(path, {f"{i}.npy": b"" for i in range(20_000)}),
    "npz names.npz": lambda path, random: _zipped(path, {"../../x.npy": _head((3,)) + bytes(24), "/x.npy": b""}),
    "npz odd.npz": lambda path, random: _zipped(
        path, {"x\n[red].npy": _head((3,)) + bytes(24), "a\0.npy": b"", "\x1b[31m.npy": b""}
    ),
    "npz pickle.npz": lambda path, random: _zipped(
        path, {"x.npy": _head((1,), "|O") + b"cos\nsystem\n(S'touch canary'\ntR."}
    ),
    "npz flipped.npz": _broken(_saved(np.savez, x=np.ones((60, 3)), kappa=np.ones((2, 6, 8)))),
    "npz packed.npz": _broken(_saved(np.savez_compressed, x=np.ones((60, 3)), kappa=np.ones((2, 6, 8)))),
    "hdf5 external.h5": _hdf5(_external),
    "hdf5 virtual.h5": _hdf5(_virtual),
    "hdf5 link.h5": _hdf5(lambda file, name, *_: file.__setitem__(name, h5py.ExternalLink("secret.h5", "/x"))),
    "hdf5 soft.h5": _hdf5(_soft),
    "hdf5 empty.h5": _hdf5(lambda file, name, *_: _set(file, name, (10**9, 1000))),
    "hdf5 bomb.h5": _hdf5(
        lambda file, name, *_: _set(
            file, name, (2**20, 2**10), chunks=(2**10, 2**10), compression="gzip", fillvalue=1.0
        )
    ),
    "hdf5 chunk.h5": _hdf5(
        lambda file, name, *_: _set(file, name, (2**14, 2**14), chunks=(2**13, 2**13), fillvalue=1.0)
    ),
    "hdf5 words.h5": _hdf5(lambda file, name, *_: _set(file, name, (60, 3), h5py.string_dtype())),
    "hdf5 null.h5": _hdf5(lambda file, name, *_: file.__setitem__(name, h5py.Empty("f8"))),
    "hdf5 reference.h5": _hdf5(lambda file, name, *_: _set(file, name, (60, 3), h5py.ref_dtype)),
    "hdf5 number.h5": _hdf5(lambda file, name, *_: file.__setitem__(name, 3.0)),
    "hdf5 groups.h5": lambda path, random: _one_group(path),
    "hdf5 cycle.h5": _hdf5(_cycle),
    "hdf5 flipped.h5": lambda path, random: (
        _hdf5(lambda f, n, *_: f.__setitem__(n, np.ones((60, 3))))(path, random),
        _flip(path, random),
    ),
    "csv field.csv": _text("a,y\n" + "1" * 10**6 + ",2\n3,4\n5,6\n"),
    "csv quoted.csv": _text('a,y\n"' + "1" * 10**7 + "\n3,4\n"),
    "csv columns.csv": _rows(",".join(f"c{i}" for i in range(20_000)) + ",y", ",".join(["1"] * 20_001), 3),
    "csv nul.csv": _rows("a,b\0,y", "1,2,3"),
    "csv nuls.csv": _text(b"a,b,y\n" + b"\0" * 10**6),
    "csv classes.csv": _classes(200),
    "csv markup.csv": _named(["[red]a", "<script>b", "$x^", "\\frac", "{c}", "%s", "&amp;", "a'b\"c"]),
    "csv dollars.csv": _named(["$", "$$", "$\\frac{", "_^", "\u202e", "\ufeff"]),
    "csv numbers.csv": _rows("a,b,y", "1e308,-1e308,1e308"),
    "csv endless.csv": _rows("a,b,y", "1e400,nan,inf"),
    "csv digits.csv": _text("a,y\n" + "9" * 5000 + ",1\n1,2\n2,3\n"),
    "csv lines.csv": _text("\n" * 10**6 + "a,y\n1,2\n"),
    "csv utf16.csv": _text("a,y\n1,2\n3,4\n".encode("utf-16")),
    "csv latin.csv": _text("é,y\n1,2\n3,4\n".encode("latin-1")),
    "csv constant.csv": _rows("a,b,y", "1,1,1"),
    "csv formula.csv": _named(["=cmd|'/c calc'!A0", "@SUM(1)", "+1"]),
    "image bomb.png": _text(_png(60_000, 60_000, bytes(10**7))),
    "image tall.png": _text(_png(1, 2**31 - 1)),
    "image cut.png": _text(_png(40, 40, bytes(100))),
    "image text.png": _text(_png(40, 40, bytes(41 * 40), more=_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**8))))),
    "image palette.png": _text(_png(40, 40, bytes(41 * 40), colour=3)),
    "image profile.png": _text(
        _png(40, 40, bytes(41 * 40), more=_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(10**8))))
    ),
    "image odd.png": _text(_png(40, 40, bytes(41 * 40), depth=3, colour=9)),
    "image flipped.png": _broken(_saved_image("PNG")),
    "image flipped.tiff": _broken(_saved_image("TIFF")),
    "image flipped.gif": _broken(_saved_image("GIF")),
    "image flipped.jpg": _broken(_saved_image("JPEG")),
    "image bomb.tiff": lambda path, random: path.write_bytes(_tiff(60_000, 60_000, random)),
    "image wide.tiff": lambda path, random: path.write_bytes(_tiff(2**31, 1, random)),
    "image script.eps": _text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 90 90\n(canary) (w) file closefile\n"),
    "image drawing.svg": _text('<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
}


def _one_group(path):
    with h5py.File(path, "w") as file:
        place = file
        for _ in range(3000):
            place = place.create_group("g")
        file["x"] = file["kappa"] = np.ones((60, 3))


def _flip(path, random):
    data = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 5, 50])):
        data[random.randrange(len(data))] = random.randrange(256)
    path.write_bytes(data)


def _file(folder, name, random):
    path = folder / name.split()[1]
    FILES[name](path, random)
    return path.name


# Pipes, devices and links, as inputs and inside of folders.


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    here = os.getcwd()
    try:
        place = socket.socket(socket.AF_UNIX)
        place.bind(os.path.relpath(path, here) if len(str(path)) > 100 else str(path))
        place.close()
    except OSError:
        path.touch()


SPECIAL = {
    "pipe.npy": _pipe,
    "pipe.npz": _pipe,
    "pipe.h5": _pipe,
    "pipe.csv": _pipe,
    "pipe.png": _pipe,
    "zero.npy": lambda path: path.symlink_to("/dev/zero"),
    "zero.csv": lambda path: path.symlink_to("/dev/zero"),
    "zero.h5": lambda path: path.symlink_to("/dev/zero"),
    "zero.png": lambda path: path.symlink_to("/dev/zero"),
    "full.npz": lambda path: path.symlink_to("/dev/full"),
    "random.csv": lambda path: path.symlink_to("/dev/urandom"),
    "socket.csv": _socket,
    "loop.npy": lambda path: path.symlink_to(path.name),
    "memory.csv": lambda path: path.symlink_to("/proc/self/mem"),
}


def _special(folder, name, random):
    SPECIAL[name](folder / name)
    return name


PLACES = {
    "a pipe": lambda path, outside: _pipe(path),
    "/dev/zero": lambda path, outside: path.symlink_to("/dev/zero"),
    "a folder": lambda path, outside: path.mkdir(),
    "nested JSON": lambda path, outside: path.write_text(DEEP),
    "objects in JSON": lambda path, outside: path.write_text('{"a":' * 100_000),
    "a link to the victim": lambda path, outside: path.symlink_to(outside / "victim"),
}


def _inside(folder, name, random):
    """Put something else in the place of a file of a folder."""
    where, what = name.split(maxsplit=1)
    files = sorted(path for path in (folder / where).rglob("*") if path.is_file())
    path = random.choice([*(path for path in files if path.name == MANIFEST), *files])
    path.unlink()
    PLACES[what](path, folder.parent.resolve())


# Contents that match their digests.


def _reseal(folder, change=lambda found: None):
    """Change a manifest, and give it the digest that it should have."""
    path = folder / MANIFEST
    found = json.loads(path.read_bytes())
    del found["sha256"]
    change(found)
    try:
        text = json.dumps(found | {"sha256": sha256(canonical(found))}, indent=1, sort_keys=True)
    except (TypeError, ValueError, UnicodeEncodeError):
        text = json.dumps(found | {"sha256": "0" * 64})
    path.write_text(text)


def _replaced(file, data):
    """A file of a folder with other contents, and the digest of these."""

    def write(folder, random):
        made = data(random) if callable(data) else data
        (folder / file).write_bytes(made)
        _reseal(folder, lambda found: found["files"].__setitem__(file, sha256(made)))

    return write


def _of(writer, name="x.h5"):
    """Bytes that a writer of files makes."""

    def make(random):
        with tempfile.TemporaryDirectory() as place:
            writer(Path(place, name), random)
            return Path(place, name).read_bytes()

    return make


def _array(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _body(**changes):
    """Changes of the body, by path: settings__width is body["settings"]["width"]."""

    def write(folder, random):
        def change(found):
            for path, value in changes.items():
                *way, last = path.split("__")
                place = found["body"]
                for step in way:
                    place = place[step]
                place[last] = value

        _reseal(folder, change)

    return write


def _header(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def _lines(file, *records):
    return lambda folder, random: (folder / file).write_bytes(b"".join(map(write_line, records)))


def _sample(entries, dtype="float32"):
    """A bank whose mask declares other parameters; digests and checksums are right."""

    def write(folder, random):
        mask = Mask(entries, dtype, b"")
        (folder / f"mask-{mask.digest}.safetensors").write_bytes(mask.encode())
        for path in folder.glob("sample-*"):
            _, chain, step = path.stem.split("-")
            facts = {
                "chain": int(chain),
                "step": int(step),
                "weight": 1.0,
                "sigma": 1.0,
                "mask": mask.digest,
                "base": None,
            }
            path.write_bytes(pack(facts, np.ones(1, np.float32)))

    return write


BLOWN = {"width": 10**9}
CONTENTS = {
    "data/mine": {
        "nested statistics": _replaced("statistics.json", DEEP.encode()),
        "empty statistics": _replaced("statistics.json", b"{}"),
        "wrong statistics": _replaced("statistics.json", b'{"logs": 5, "rms": "a", "std": null}'),
        "long statistics": _replaced("statistics.json", b'{"logs": [true], "rms": [1], "std": [1e400]}'),
        "far order": _replaced("order.npy", _array(np.arange(60) + 10**9)),
        "words order": _replaced("order.npy", _array(np.array(["a"] * 60))),
        "long order": _replaced("order.npy", _head((10**12,), "<i8")),
        "large order": _replaced("order.npy", _array(np.zeros(10**7, np.int8))),
        "pickled inputs": _replaced("inputs.npy", _head((60, 3), "|O") + b"cos\nsystem\n(S'touch canary'\ntR."),
        "long inputs": _replaced("inputs.npy", _head((10**12, 3))),
        "text inputs": _replaced("inputs.npy", b"text"),
        "narrow test": _replaced("test.npy", _array(np.zeros((2, 2)))),
        "nan outputs": _replaced("outputs.npy", _array(np.full((60, 2), np.nan))),
        "another problem": _body(problem="os"),
        "a number for a problem": _body(problem=5),
        "huge shapes": _body(input={"layout": "v", "shape": [10**12], "names": [], "units": []}),
        "baselines": _lines("baselines-test.jsonl", {"data": 1, "version": 1, "baselines": [{"name": "a"}] * 1000}),
    },
    "data/kle": {
        "external shard": _replaced("shard-00000.h5", _of(_hdf5(_external))),
        "virtual shard": _replaced("shard-00000.h5", _of(_hdf5(_virtual))),
        "bomb of a shard": _replaced("shard-00000.h5", _of(FILES["hdf5 bomb.h5"])),
        "empty shard": _replaced("shard-00000.h5", _of(FILES["hdf5 empty.h5"])),
        "text for a shard": _replaced("shard-00000.h5", b"text"),
        "huge grid": _body(grid={"nx": 10**6, "ny": 10**6, "lx": 1.0, "ly": 1.0}),
        "no grid": _body(grid=None),
        "many samples": _body(samples=10**12),
        "no shards": lambda folder, random: _reseal(folder, lambda found: found.__setitem__("files", {})),
        "away": lambda folder, random: _reseal(folder, lambda found: found["files"].__setitem__("../../x.npy", "0")),
        "side": _body(sides={"left": "flow 1", "__class__": "pressure 1"}),
        "earlier": lambda folder, random: (
            (folder / MANIFEST).unlink(),
            (folder / "recipe.json").write_text("{}"),
            (folder / "manifest.json").write_text(random.choice([DEEP, "{}", '{"recipe": 1}', "[]", "null"])),
        ),
    },
    "runs/mine": {
        "nested result": _replaced("result.json", DEEP.encode()),
        "empty result": _replaced("result.json", b"{}"),
        "odd result": _replaced("result.json", b'{"input_range": 7, "seconds": "x", "layers": 3, "inclusion": []}'),
        "list for a result": _replaced("result.json", b"[]"),
        "wide network": _body(settings__network_options=BLOWN),
        "deep network": _body(settings__network_options={"width": 1, "depth": 10**9}),
        "wider network": _body(settings__network_options={"width": 40_000, "depth": 2}),
        "odd network": _body(settings__network_options={"width": "a"}),
        "own network": _body(settings__network="planted:Net"),
        "our function": _body(settings__network="sparse_langevin.cli:main"),
        "our import": _body(settings__network="sparse_langevin.surrogates.problem:import_module"),
        "main module": _body(settings__network="sparse_langevin.__main__:main"),
        "wide outputs": _body(problem__output={"layout": "v", "shape": [10**10], "names": [], "units": []}),
        "wide fields": _body(
            problem__input={"layout": "yx", "shape": [10**5, 10**5], "names": [], "units": []},
            problem__output={"layout": "yx", "shape": [10**5, 10**5], "names": [], "units": []},
            settings__network="unet",
            settings__network_options={},
        ),
        "data elsewhere": _body(data="/dev/zero"),
        "data far away": _body(data="../" * 50 + "etc"),
        "weights": _replaced(
            "model.safetensors", _header({"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}})
        ),
        "long header": _replaced("model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
        "nested header": _replaced("model.safetensors", _header(DEEP.encode())),
        "no weights": _replaced("model.safetensors", _header({})),
        "pickled weights": _replaced("model.safetensors", b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."),
        "history": _lines("history.jsonl", {"step": "a"}, {"loss": None}),
        "nested history": _replaced("history.jsonl", DEEP.encode() + b"\n"),
        "odd history": _replaced("history.jsonl", write_line({"step": None, "epoch": "x", "loss": []}) * 3),
        "empty history": _replaced("history.jsonl", b""),
        "factors": _lines("recalibration.jsonl", {"samples": 4, "weights": "a", "noise": 1e308}),
        "nested factors": lambda folder, random: (folder / "recalibration.jsonl").write_text(DEEP + "\n"),
        "a run of fit": lambda folder, random: _reseal(folder, lambda found: found.__setitem__("body", {})),
    },
    "runs/mine/samples": {
        "huge mask": _sample((("network.layers.1.weight", (10**12,)),)),
        "large mask": _sample((("network.layers.1.weight", (10**9,)),)),
        "negative mask": _sample((("a", (-5, -7)),)),
        "odd mask": _sample((("a", (1,)),)),
        "typed mask": _sample((("a", (1,)),), "object"),
        "nested header": lambda folder, random: [
            p.write_bytes(_header(DEEP.encode())) for p in folder.glob("sample-*")
        ],
        "list header": lambda folder, random: [p.write_bytes(_header([])) for p in folder.glob("*.safetensors")],
        "empty files": lambda folder, random: [p.write_bytes(b"") for p in folder.glob("*.safetensors")],
    },
    "runs/kle": {
        "huge grid": _body(problem__grid={"nx": 10**5, "ny": 10**5, "lx": 1.0, "ly": 1.0}),
        "wide channels": _body(settings__network_options={"channels": [10**5] * 4, "code": 3, "hidden": 8}),
        "many channels": _body(settings__network_options={"channels": [1] * 1000, "code": 3, "hidden": 8}),
        "wide code": _body(settings__network_options={"channels": [2, 2, 2, 2], "code": 10**8, "hidden": 10**4}),
    },
    "runs/half": {
        "linked history": lambda folder, random: (
            (folder / "history.jsonl").unlink(),
            (folder / "history.jsonl").symlink_to("../../../victim"),
            [_reseal(p, lambda found: found["body"]["meta"].__setitem__("history_bytes", 0)) for p in _steps(folder)],
        ),
        "linked samples": lambda folder, random: (folder / "samples").symlink_to("../.."),
        "nested meta": lambda folder, random: [(p / MANIFEST).write_text(DEEP) for p in _steps(folder)],
        "no meta": lambda folder, random: [_reseal(p, lambda found: found["body"].pop("meta")) for p in _steps(folder)],
        "odd step": lambda folder, random: [
            _reseal(p, lambda found: found["body"].__setitem__("step", random.choice(ODD))) for p in _steps(folder)
        ],
        "odd meta": lambda folder, random: [
            _reseal(p, lambda found: _spoil(found["body"]["meta"], random)) for p in _steps(folder)
        ],
        "odd state": lambda folder, random: [
            _replaced("state.safetensors", _header({}))(p, random) for p in _steps(folder)
        ],
    },
    "small": {
        "wide network": _body(meta__settings__network_options=BLOWN),
        "deep network": _body(meta__settings__network_options={"width": 1, "depth": 10**9}),
        "wider network": _body(meta__settings__network_options={"width": 40_000, "depth": 2}),
        "own network": _body(meta__settings__network="planted:Net"),
        "no meta": _body(meta={}),
        "list for meta": _body(meta=[]),
        "odd range": _body(meta__input_range=7),
        "nested": lambda folder, random: (folder / MANIFEST).write_text(DEEP),
    },
}


def _steps(folder):
    return sorted((folder / "checkpoints").glob("step-*"))


def _contents(folder, name, random):
    where, what = next((w, name.removeprefix(w).strip()) for w in sorted(ON, key=len)[::-1] if name.startswith(f"{w} "))
    _plant(folder, folder / where, names=("planted",))
    CONTENTS[where][what](folder / where, random)


# Manifests that say anything.


def _spoil(value, random):
    """Replace, remove or add something at a random place of a JSON value."""
    places = list(_places(value))
    owner, key = random.choice(places) if places else (value, None)
    what = random.random()
    if key is None or what < 0.1:
        if isinstance(owner, dict):
            owner["unknown"] = random.choice(ODD)
    elif what < 0.25:
        del owner[key]
    else:
        owner[key] = random.choice(ODD)


def _places(value):
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _manifest(folder, name, random):
    _plant(folder, folder / name, names=("planted",))
    if not (folder / name / MANIFEST).exists():
        return

    def change(found):
        part = random.choice(["body", "body", "body", "files", "versions", ""])
        _spoil(found[part] if part and found[part] else found, random)

    _reseal(folder / name, change)


# Modules that nobody asked for.

PLANTED = (
    *("tqdm", "opt_einsum", "numpy", "typer", "onnx", "tensorboard", "sitecustomize", "h5py", "matplotlib", "readline"),
    *(
        "orjson",
        "simplejson",
        "cupy",
        "jax",
        "mpi4py",
        "IPython",
        "ipywidgets",
        "triton",
        "intel_openmp",
        "sparse_langevin",
    ),
)


def _plant(folder, *more, names):
    for place in (folder, *more):
        for name in names:
            (place / f"{name}.py").write_text(CANARY)


def _planted(folder, name, random):
    _plant(folder, folder / "runs/mine", names=(name,))


def _fresh(folder, name, random):
    _plant(
        folder,
        folder / "runs/mine",
        names=(*PLANTED, "json", "torch", "click", "rich", "pydantic", "site", "usercustomize"),
    )


def _beside(folder, name, random):
    _fresh(folder, name, random)
    (folder / "own.py").write_text(OWN)


MAKERS = {
    "file": _file,
    "special": _special,
    "inside": _inside,
    "contents": _contents,
    "manifest": _manifest,
    "planted": _planted,
    "fresh": _fresh,
    "beside": _beside,
}
